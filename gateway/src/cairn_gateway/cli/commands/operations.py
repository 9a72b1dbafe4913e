"""`cairn status`, `ingest`, `verify` and `indexes`: how Cairn is."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cairn_gateway.cli import screen
from cairn_gateway.cli.client import as_object, connect
from cairn_gateway.cli.exits import Negative
from cairn_gateway.cli.options import AsJson, segment

VERIFY_TIMEOUT = 600.0


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("status")(status)
    app.command("ingest")(ingest)
    app.command("verify")(verify)
    app.command("indexes")(indexes)


def status(as_json: AsJson = False) -> None:
    """Show whether every part is up, and how far the index is behind. Ends with 1 when a part is down."""
    with connect() as cairn:
        response = cairn.request("GET", "/status")
        url = cairn.target.url
    state = as_object(response)
    if as_json:
        screen.raw(response.content)
    else:
        screen.say(f"Cairn at {url}", style="bold")
        _facts(state)


def ingest(event_id: Annotated[str, typer.Argument(metavar="EVENT_ID")], as_json: AsJson = False) -> None:
    """Tell what became of an event. Ends with 1 when it is dead or unknown."""
    with connect() as cairn:
        response = cairn.request("GET", f"/ingest/{segment(event_id)}")
    state = as_object(response)
    if as_json:
        screen.raw(response.content)
    else:
        _facts(state)
    if state.get("state") == "dead":
        raise Negative("the event is dead: it waits in the dead letter queue")


def verify(
    repair: Annotated[bool, typer.Option("--repair", help="Publish again what differs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare the stored runbooks with the index. Ends with 1 on a difference."""
    with connect() as cairn:
        response = cairn.request("POST", "/verify", body={"repair": repair}, timeout=VERIFY_TIMEOUT)
    found = as_object(response)
    if as_json:
        screen.raw(response.content)
    else:
        _facts(found)


def indexes(as_json: AsJson = False) -> None:
    """Show the stores' indexes and whether the planner uses them."""
    with connect() as cairn:
        response = cairn.request("GET", "/admin/indexes", timeout=60.0)
    if as_json:
        screen.raw(response.content)
    else:
        _facts(as_object(response))


def _facts(value: dict[str, Any], indent: str = "") -> None:
    """Names and values, nested objects indented below their name."""
    for name, member in value.items():
        if isinstance(member, dict) and member:
            screen.say(f"{indent}{name}")
            _facts(member, indent + "  ")
        elif member not in (None, [], {}):
            screen.say(f"{indent}{name}: {member}")
