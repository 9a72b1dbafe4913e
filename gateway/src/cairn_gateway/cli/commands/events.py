"""`cairn events tail`: what comes in."""

from __future__ import annotations

import time
from collections import deque
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from cairn_gateway.cli import screen
from cairn_gateway.cli.client import Cairn, as_object, connect
from cairn_gateway.cli.exits import Negative
from cairn_gateway.cli.options import AsJson

INTERVAL = 1.0
OVERLAP = timedelta(seconds=5)
"""Events of a long transaction appear late among others."""

PAGE = 5000
REMEMBERED = 20_000
PATIENCE = 600.0

events = typer.Typer(help="What came in, and how it ended.", no_args_is_help=True)


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(events, name="events")


@events.command("tail")
def tail(
    *,
    number: Annotated[int, typer.Option("-n", min=1, max=PAGE, help="Begin with the last so many.")] = 10,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", "-f/-F", help="Wait for more.")] = True,
    source: Annotated[str | None, typer.Option(help="Only from this source.", show_default=False)] = None,
    kind: Annotated[str | None, typer.Option(help="Only of this kind.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Show events as they become searchable, superseded or dead; with --json a JSON object a line."""
    shown = 0
    with connect() as cairn:
        seen: deque[str] = deque(maxlen=REMEMBERED)
        found = _events(cairn, {"limit": number})
        last: str | None = None
        while True:
            known = set(seen)
            fresh = [event for event in found if event["event_id"] not in known]
            for event in fresh:
                seen.append(event["event_id"])
                if source in (None, event["source"]) and kind in (None, event["kind"]):
                    _show(event, as_json=as_json)
                    shown += 1
            last = found[-1]["settled_at"] if found else last
            if not follow:
                break
            full = len(found) == PAGE  # what is behind it comes first
            if not full:
                time.sleep(INTERVAL)
            query: dict[str, Any] = {"limit": PAGE}
            if last is not None:
                since = datetime.fromisoformat(last) - (timedelta(0) if full else OVERLAP)
                query["since"] = since.isoformat()
            found = _events(cairn, query)
    if not shown:
        raise Negative("no event")


def _events(cairn: Cairn, query: dict[str, Any]) -> list[dict[str, Any]]:
    response = cairn.request("GET", "/events", params=query, patience=PATIENCE)
    found: list[dict[str, Any]] = as_object(response)["events"]
    return found


def _show(event: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        screen.data(event)
        return
    cells = (
        event["settled_at"],
        event["state"],
        event["kind"] or "",
        event["source"] or event["topic"],
        event["title"] or event["subject"] or event["event_id"],
        event["detail"] or "",
    )
    screen.say("\t".join(str(cell).replace("\t", " ").replace("\n", " ") for cell in cells).rstrip())
