"""`cairn dlq replays`, `watch` and `stop`: replays under way and done."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import typer

from cairn_gateway.cli import screen
from cairn_gateway.cli.client import Cairn, Json, as_object, connect
from cairn_gateway.cli.exits import Negative
from cairn_gateway.cli.options import AsJson, segment

LOOK = 0.5
QUIET = 120.0
"""Seconds without a change after which following ends; the replay itself goes on."""

PATIENCE = 60.0
"""Seconds that a gateway may be away meanwhile."""

JobId = Annotated[str, typer.Argument(metavar="REPLAY", help="As `cairn dlq replays` shows it.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("replays")(list_replays)
    app.command("watch")(watch)
    app.command("stop")(stop)


def list_replays(
    limit: Annotated[int, typer.Option(min=1, max=100, help="At most so many, newest first.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List replays and how far they are. Ends with 1 when there is none."""
    with connect() as cairn:
        response = cairn.request("GET", "/dlq/replays", params={"limit": limit})
    found = as_object(response)["replays"]
    if as_json:
        screen.raw(response.content)
    elif found:
        numbers = ("selected", "waiting", "on_their_way", "resolved", "failed_again", "discarded")
        rows = [
            (job["id"], job["created_at"], job["by"], job["state"], *(job[name] for name in numbers), job["note"])
            for job in found
        ]
        counted = ("Letters", "Waiting", "On their way", "Resolved", "Failed again", "Discarded")
        screen.table(("Replay", "Begun", "By", "State", *counted, "Note"), rows, right=counted)
    if not found:
        raise Negative("no replay")


def watch(job_id: JobId, as_json: AsJson = False) -> None:
    """Follow a replay until every letter came to an end. Ends with 1 when one failed again."""
    with connect() as cairn:
        job = follow(cairn, as_object(cairn.request("GET", f"/dlq/replays/{segment(job_id)}")))
    if as_json:
        screen.data(job)
    else:
        tell(job)
    if job["failed_again"] or not job["settled"]:
        raise Negative(f"{job['failed_again']} failed again, {job['on_their_way']} are on their way")


def stop(job_id: JobId, as_json: AsJson = False) -> None:
    """Send no more of a replay; what was not sent stays open."""
    with connect() as cairn:
        response = cairn.request("POST", f"/dlq/replays/{segment(job_id)}/stop")
    if as_json:
        screen.raw(response.content)
    else:
        tell(as_object(response))


def follow(
    cairn: Cairn,
    job: Json,
    *,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> Json:
    """The replay when all its letters came to an end, or when nothing changes any more."""
    path = f"/dlq/replays/{segment(job['id'])}"
    changed = monotonic()
    with screen.progress("replaying", job["selected"]) as advance:
        advance(_ended(job))
        while not job["settled"] and monotonic() - changed < QUIET:
            sleep(LOOK)
            later = as_object(cairn.request("GET", path, patience=PATIENCE))
            if later != job:
                changed = monotonic()
            advance(_ended(later) - _ended(job))
            job = later
    return job


def tell(job: Json) -> None:
    """A replay for a person."""
    screen.facts(
        {
            "replay": job["id"],
            "state": job["state"],
            "letters": job["selected"],
            "refused": job["refused"] or None,
            "waiting": job["waiting"] or None,
            "on their way": job["on_their_way"] or None,
            "resolved": job["resolved"],
            "failed again": job["failed_again"] or None,
            "discarded": job["discarded"] or None,
        }
    )


def _ended(job: Json) -> int:
    return int(job["resolved"] + job["failed_again"] + job["discarded"])
