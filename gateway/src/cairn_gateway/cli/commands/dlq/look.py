"""`cairn dlq ls`, `groups` and `show`."""

from __future__ import annotations

import sys
from itertools import islice
from typing import Annotated, Any

import typer

from cairn_gateway.cli import screen
from cairn_gateway.cli.client import as_object, connect
from cairn_gateway.cli.commands.dlq import choosing
from cairn_gateway.cli.commands.dlq.choosing import State
from cairn_gateway.cli.commands.search import preview
from cairn_gateway.cli.exits import Negative
from cairn_gateway.cli.options import AsJson

PAGE = 500
REASON_CHARACTERS = 100


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("ls")(list_letters)
    app.command("groups")(groups)
    app.command("show")(show)


def list_letters(
    *,
    state: Annotated[State, typer.Option(help="Where they are.")] = State.OPEN,
    any_state: Annotated[bool, typer.Option("--any-state", help="Wherever they are.")] = False,
    group: choosing.Group = None,
    topic: choosing.Topic = None,
    stage: choosing.Stage = None,
    kind: choosing.Kind = None,
    exception: choosing.Exception_ = None,
    source: choosing.Source = None,
    event_type: choosing.Type = None,
    since: choosing.Since = None,
    until: choosing.Until = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the last failed first.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List dead letters. Ends with 1 when there is none."""
    wanted: dict[str, Any] = choosing.filters(
        group=group,
        topic=topic,
        stage=stage,
        kind=kind,
        exception=exception,
        source=source,
        event_type=event_type,
        since=since,
        until=until,
        state=None if any_state else state.value,
    )
    wanted["limit"] = min(limit, PAGE)
    with connect() as cairn:
        found = list(islice(cairn.pages("/dlq", "letters", params=wanted), limit))
    if as_json:
        screen.data({"letters": found})
    elif found:
        columns = ("Id", "State", "Age", "Replays", "Stage", "Type", "Source", "Subject", "Reason")
        screen.table(columns, [_row(letter) for letter in found], right=("Replays",))
    if not found:
        raise Negative("no dead letter" + ("" if any_state else f" is {state.value}"))


def groups(
    *,
    state: Annotated[State, typer.Option(help="Where they are.")] = State.OPEN,
    topic: choosing.Topic = None,
    source: choosing.Source = None,
    since: choosing.Since = None,
    as_json: AsJson = False,
) -> None:
    """Count letters that failed alike: mostly one group is one cause. Ends with 1 when there is none."""
    wanted = choosing.filters(topic=topic, source=source, since=since, state=state.value)
    with connect() as cairn:
        response = cairn.request("GET", "/dlq/groups", params=wanted)
    found = as_object(response)["groups"]
    if as_json:
        screen.raw(response.content)
    elif found:
        rows = [
            (
                one["fingerprint"],
                one["count"],
                age(one["oldest_seconds"]),
                one["stage"],
                one["exception"].rpartition(".")[2],
                one["sources"],
                preview(one["message"], REASON_CHARACTERS),
            )
            for one in found
        ]
        columns = ("Group", "Letters", "Oldest", "Stage", "Exception", "Sources", "Reason")
        screen.table(columns, rows, right=("Letters",))
    if not found:
        raise Negative(f"no dead letter is {state.value}")


def show(
    letter_id: Annotated[str, typer.Argument(metavar="ID")],
    raw: Annotated[bool, typer.Option("--raw", help="Write the value to stdout, byte for byte.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a letter: why it failed, its value and headers, its stack, what was done about it."""
    path = f"/dlq/{choosing.checked(letter_id)}"
    with connect() as cairn:
        response = cairn.request("GET", f"{path}/value" if raw else path)
    if raw:
        sys.stdout.flush()
        sys.stdout.buffer.write(response.content)
        sys.stdout.buffer.flush()
    elif as_json:
        screen.raw(response.content)
    else:
        _show(as_object(response))


def age(seconds: float) -> str:
    """A time as a person says it."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _row(letter: dict[str, Any]) -> tuple[Any, ...]:
    failure = letter["failure"]
    superseded = " (superseded)" if letter["superseded"] else ""
    return (
        letter["id"],
        letter["state"] + superseded,
        age(letter["age_seconds"]),
        letter["replay_count"],
        failure["stage"],
        letter["event_type"],
        letter["source"],
        letter["subject"],
        preview(failure["message"], REASON_CHARACTERS),
    )


def _show(letter: dict[str, Any]) -> None:
    failure = letter["failure"]
    closed = f"{letter['outcome'] or ''} {letter['closed_at'] or ''} {letter['closed_by'] or ''}".strip()
    indexed = letter["indexed_version"]
    screen.facts(
        {
            "id": letter["id"],
            "state": letter["state"],
            "closed": closed,
            "why": letter["reason"],
            "event": letter["event_id"],
            "type": letter["event_type"],
            "source": letter["source"],
            "subject": letter["subject"],
            "version": letter["version"],
            "in the index": f"version {indexed}, newer" if letter["superseded"] else indexed,
            "record": f"{letter['topic']}[{letter['partition']}]@{letter['offset']}, {letter['size']} bytes",
            "failed": f"{failure['first_failed_at']} first, {failure['last_failed_at']} last",
            "attempts": failure["attempts"],
            "replays": letter["replay_count"],
            "replay": letter["waiting_in"] or (letter["replay"] or {}).get("job"),
            "edited from": letter["edited_from"],
            "edited to": letter["edited_to"],
            "stage": f"{failure['stage']} ({failure['kind']})",
            "exception": failure["exception"],
            "cause": failure["cause"],
            "reason": failure["message"],
            "code": f"{failure['app_version']} pipeline {failure['pipeline']} {failure['git_sha']}".strip(),
            "group": letter["fingerprint"],
            "trace": letter["trace_id"],
        }
    )
    _bytes("key", letter["key"])
    for header in letter["headers"]:
        _bytes(f"header {header['name']}", header)
    _bytes("value", letter["value"])
    if letter["stack"]:
        screen.say("\nstack")
        screen.say(letter["stack"].rstrip())
    screen.say("\nhistory")
    for change in letter["history"]:
        by = f" by {change['by']}" if change["by"] else ""
        screen.say(f"{change['at']}  {change['what']}{by}  {change['detail']}".rstrip())


def _bytes(name: str, view: dict[str, Any]) -> None:
    """Text on the line of its name, or below it where it is long."""
    text = "null" if view["null"] else view["text"] if view["text"] is not None else f"hex {view['hex']}"
    cut = f" … ({view['size']} bytes in all)" if view["truncated"] else ""
    screen.say(f"{name}: {text}{cut}" if len(text) < 200 else f"{name}:\n{text}{cut}")
