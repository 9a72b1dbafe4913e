"""`cairn dlq dry-run`, `replay`, `edit`, `discard` and `reopen`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cairn_gateway.cli import screen
from cairn_gateway.cli.client import as_object, connect
from cairn_gateway.cli.commands.dlq import choosing
from cairn_gateway.cli.commands.dlq.replays import follow, tell
from cairn_gateway.cli.exits import Negative, UsageError
from cairn_gateway.cli.options import AsJson, read_text

DRY_RUN_TIMEOUT = 600.0

Reason = Annotated[str, typer.Option("--reason", "-m", help="Why; it is kept.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("dry-run")(dry_run)
    app.command("replay")(replay)
    app.command("edit")(edit)
    app.command("discard")(discard)
    app.command("reopen")(reopen)


def dry_run(
    ids: choosing.Ids = None,
    *,
    group: choosing.Group = None,
    topic: choosing.Topic = None,
    stage: choosing.Stage = None,
    source: choosing.Source = None,
    everything: choosing.All = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many, the longest dead first.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Try letters on the consumers' code of now; nothing is written. Ends with 1 when one would fail."""
    filtered = choosing.filters(group=group, topic=topic, stage=stage, source=source)
    body = choosing.selection(ids, filtered, everything=everything) | {"limit": limit}
    with connect() as cairn:
        response = cairn.request("POST", "/dlq/dry-runs", body=body, timeout=DRY_RUN_TIMEOUT)
    tried = as_object(response)
    if as_json:
        screen.raw(response.content)
    else:
        _tell_tried(tried)
    if not tried["results"]:
        raise Negative("no open letter fits")
    if tried["failed"]:
        raise Negative(f"{tried['failed']} of {len(tried['results'])} would fail again")


def replay(
    ids: choosing.Ids = None,
    *,
    group: choosing.Group = None,
    topic: choosing.Topic = None,
    stage: choosing.Stage = None,
    kind: choosing.Kind = None,
    exception: choosing.Exception_ = None,
    source: choosing.Source = None,
    event_type: choosing.Type = None,
    since: choosing.Since = None,
    until: choosing.Until = None,
    everything: choosing.All = False,
    rate: Annotated[float, typer.Option(min=0.01, max=1000, help="Letters a second.")] = 20.0,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the longest dead first.")] = 100_000,
    force: Annotated[bool, typer.Option("--force", help="Also those that came back from three replays.")] = False,
    note: Annotated[str, typer.Option(help="For the audit.", show_default=False)] = "",
    wait: Annotated[bool, typer.Option(help="Follow it until every letter came to an end.")] = True,
    as_json: AsJson = False,
) -> None:
    """Send letters back to the topics they came from. Ends with 1 when one failed again or none was sent."""
    filtered = choosing.filters(
        group=group,
        topic=topic,
        stage=stage,
        kind=kind,
        exception=exception,
        source=source,
        event_type=event_type,
        since=since,
        until=until,
    )
    body = choosing.selection(ids, filtered, everything=everything)
    body |= {"rate": rate, "limit": limit, "force": force, "note": note}
    with connect() as cairn:
        job = as_object(cairn.request("POST", "/dlq/replays", body=body))
        if job["selected"] and wait:
            job = follow(cairn, job)
    if as_json:
        screen.data(job)
    else:
        tell(job)
    if not job["selected"]:
        more = f", {job['refused']} came back from three replays (--force sends them)" if job["refused"] else ""
        raise Negative(f"no open letter fits{more}")
    if wait and (job["failed_again"] or job["on_their_way"]):
        raise Negative(
            f"{job['failed_again']} failed again, {job['on_their_way']} are on their way",
            hint="`cairn dlq groups` shows why",
        )


def edit(
    letter_id: Annotated[str, typer.Argument(metavar="ID")],
    file: Annotated[str, typer.Option("--file", "-f", help="The mended event; - for stdin.", show_default=False)],
    *,
    reason: Reason = "",
    try_only: Annotated[bool, typer.Option("--dry-run", help="Only try it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Send a mended event in a letter's place. `cairn dlq show ID --raw` gives the value to mend."""
    body = {"value": read_text(file, "--file"), "reason": reason, "dry_run": try_only}
    with connect() as cairn:
        path = f"/dlq/{choosing.checked(letter_id)}/edit"
        response = cairn.request("POST", path, body=body, timeout=DRY_RUN_TIMEOUT)
    answer = as_object(response)
    if as_json:
        screen.raw(response.content)
    elif try_only:
        _tell_tried(answer["dry_run"])
    else:
        screen.say(answer["event_id"])
        screen.note(f"sent; `cairn ingest watch {answer['event_id']}` follows it")
    if try_only and answer["dry_run"]["failed"]:
        raise Negative("it would fail")


def discard(
    ids: choosing.Ids = None,
    *,
    reason: Reason,
    group: choosing.Group = None,
    topic: choosing.Topic = None,
    stage: choosing.Stage = None,
    source: choosing.Source = None,
    until: choosing.Until = None,
    everything: choosing.All = False,
    as_json: AsJson = False,
) -> None:
    """Close open letters without a replay, saying why; `reopen` takes it back."""
    if not reason.strip():
        raise UsageError("--reason: say why")
    filtered = choosing.filters(group=group, topic=topic, stage=stage, source=source, until=until)
    body = choosing.selection(ids, filtered, everything=everything) | {"reason": reason}
    with connect() as cairn:
        response = cairn.request("POST", "/dlq/discards", body=body)
    count = as_object(response)["discarded"]
    if as_json:
        screen.raw(response.content)
    else:
        screen.say(f"{count} discarded")
    if not count:
        raise Negative("no open letter fits")


def reopen(letter_id: Annotated[str, typer.Argument(metavar="ID")], reason: Reason) -> None:
    """Open a discarded letter again, or one whose replay was never heard of."""
    with connect() as cairn:
        cairn.request("POST", f"/dlq/{choosing.checked(letter_id)}/reopen", body={"reason": reason})
    screen.note(f"{letter_id} is open")


def _tell_tried(tried: dict[str, Any]) -> None:
    rows = [
        (
            result["id"],
            "ok" if result["ok"] else "fails",
            result["verdict"] or result["stage"],
            result["steps"] or "",
            result["title"] or "",
            result["reason"] or "",
        )
        for result in tried["results"]
    ]
    if rows:
        screen.table(("Id", "", "Outcome", "Steps", "Title", "Reason"), rows, right=("Steps",))
    code = f", by version {tried['app_version']} (pipeline {tried['pipeline']})" if tried["app_version"] else ""
    screen.note(f"{tried['ok']} would pass, {tried['failed']} would fail{code}; nothing was written")
