"""`cairn dlq export` and `import`: letters as JSON lines."""

from __future__ import annotations

import sys
from itertools import islice
from typing import Annotated

import typer

from cairn_gateway.cli import screen
from cairn_gateway.cli.client import as_object, connect
from cairn_gateway.cli.commands.dlq import choosing
from cairn_gateway.cli.commands.dlq.choosing import State
from cairn_gateway.cli.exits import Negative, Rejected
from cairn_gateway.cli.options import AsJson

BATCH_BYTES = 8 * 1024 * 1024
BATCH_LINES = 2000
TIMEOUT = 300.0


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("export")(export)
    app.command("import")(bring_in)


def export(
    *,
    state: Annotated[State | None, typer.Option(help="Where they are; all without it.", show_default=False)] = None,
    group: choosing.Group = None,
    topic: choosing.Topic = None,
    source: choosing.Source = None,
    since: choosing.Since = None,
    until: choosing.Until = None,
) -> None:
    """Write letters to stdout, a JSON object a line, bytes in base64. Secrets in them are not redacted."""
    wanted = choosing.filters(
        group=group, topic=topic, source=source, since=since, until=until, state=state.value if state else None
    )
    lines = 0
    with connect() as cairn, cairn.reading("/dlq/export", params=wanted, timeout=TIMEOUT) as response:
        sys.stdout.flush()
        for chunk in response.iter_bytes():
            lines += chunk.count(b"\n")
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
    screen.note(f"{lines} letters")
    if not lines:
        raise Negative("no letter fits")


def bring_in(
    file: Annotated[typer.FileBinaryRead, typer.Argument(metavar="FILE", help="JSON lines; - for stdin.")],
    as_json: AsJson = False,
) -> None:
    """Take letters of an export as open ones; those that are here already stay as they are."""
    imported, known, done = 0, 0, 0
    rejected: list[tuple[int, str]] = []
    with connect() as cairn:
        while lines := list(islice(file, BATCH_LINES)):
            while lines:
                batch: list[bytes] = []
                while lines and (not batch or sum(map(len, batch)) + len(lines[0]) <= BATCH_BYTES):
                    batch.append(lines.pop(0))
                headers = {"content-type": "application/x-ndjson"}
                answer = as_object(
                    cairn.request("POST", "/dlq/import", content=b"".join(batch), headers=headers, timeout=TIMEOUT)
                )
                imported, known = imported + answer["imported"], known + answer["known"]
                rejected += [(done + one["line"], one["reason"]) for one in answer["rejected"]]
                done += len(batch)
    if as_json:
        told = [{"line": line, "reason": reason} for line, reason in rejected]
        screen.data({"imported": imported, "known": known, "rejected": told})
    else:
        screen.say(f"{imported} imported, {known} were here already")
        for line, reason in rejected:
            screen.note(f"line {line}: {reason}", style="yellow")
    if rejected:
        raise Rejected(f"{len(rejected)} lines are no letters")
