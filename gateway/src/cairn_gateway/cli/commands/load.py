"""`cairn import` and `cairn seed`: runbooks from files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cairn_gateway.cli import screen, seeding
from cairn_gateway.cli.client import Cairn, connect
from cairn_gateway.cli.exits import Negative, Rejected, Unreachable, UsageError
from cairn_gateway.cli.importing import STATUSES, Summary, Watch, count, import_folder
from cairn_gateway.cli.options import AsJson
from cairn_gateway.cli.waiting import Waited, WaitPolicy, wait_searchable

WaitLimit = Annotated[float, typer.Option(min=1, help="Seconds to wait until everything is searchable.")]
STATUS_STYLES = {"created": "green", "changed": "cyan", "rejected": "red"}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("import")(import_command)
    app.command("seed")(seed)


def import_command(
    folder: Annotated[
        Path, typer.Argument(help="A folder (read with its subfolders) or one file.", show_default=False)
    ],
    *,
    prefix: Annotated[
        str | None, typer.Option(help="Put before every id, to keep folders apart.", show_default=False)
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Where they come from, to filter by later.", show_default=False)
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Return when everything is searchable.")] = False,
    wait_limit: WaitLimit = 300.0,
    strict: Annotated[bool, typer.Option("--strict", help="End with 3 when a file was rejected.")] = False,
    as_json: AsJson = False,
) -> None:
    """Load every *.md and *.markdown file; importing again changes nothing.

    A file that cannot be loaded is listed with its reason and does not stop the others.
    """
    if not folder.exists():
        raise UsageError(f"{folder} does not exist")
    with connect() as cairn:
        summary = _import(cairn, folder, source=source, prefix=prefix)
        waited = _wait(cairn, summary.event_ids(), wait_limit) if wait else None
    if as_json:
        screen.data(summary.to_json() | ({"wait": _wait_json(waited)} if waited else {}))
    else:
        _show(summary, waited)
    if strict and summary.rejected():
        raise Rejected(f"{len(summary.rejected())} files were rejected")
    _must_be_complete(waited)


def seed(
    data: Annotated[
        Path | None,
        typer.Option(help="The data folder; otherwise the checkout's, above the current folder.", show_default=False),
    ] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until everything is searchable.")] = False,
    wait_limit: WaitLimit = 300.0,
    as_json: AsJson = False,
) -> None:
    """Load the demo's runbooks, users and executions; a second run changes nothing."""
    folder = seeding.find_data(data, Path.cwd())
    records = seeding.read_records(folder)
    with connect() as cairn:
        summary = _import(cairn, folder / "runbooks", source=None, prefix=None)
        counts = {"runbooks": summary.counts()} | seeding.put_records(cairn, records, on_wait=_waiting)
        waited = None if no_wait else _wait(cairn, summary.event_ids(), wait_limit)
    if as_json:
        screen.data(
            {"data": str(folder), "counts": counts, "files": summary.to_json()["files"], "wait": _wait_json(waited)}
        )
    else:
        rows = [[name, *(counted.get(status, 0) for status in STATUSES)] for name, counted in counts.items()]
        screen.table(("", *STATUSES), rows, right=STATUSES)
        _show_rejected(summary)
        _show_wait(waited)
    if summary.rejected():
        raise Rejected(f"{len(summary.rejected())} runbooks were rejected")
    _must_be_complete(waited)


def _import(cairn: Cairn, folder: Path, *, source: str | None, prefix: str | None) -> Summary:
    total = count(folder)
    if total == 0:
        raise UsageError(f"{folder} holds no *.md or *.markdown file")
    with screen.progress("importing", total) as advance:
        return import_folder(cairn, folder, source=source, prefix=prefix, watch=Watch(advance, _waiting))


def _wait(cairn: Cairn, event_ids: list[str], limit: float) -> Waited:
    with screen.progress("indexing", len(event_ids)) as advance:
        return wait_searchable(cairn, event_ids, policy=WaitPolicy(limit=limit), advance=advance)


def _waiting(error: Unreachable) -> None:
    screen.note(f"{error.message}; trying again", style="yellow")


def _show(summary: Summary, waited: Waited | None) -> None:
    from rich.text import Text

    counts = summary.counts()
    line = Text(", ").join(
        Text(f"{number} {status}", STATUS_STYLES.get(status, "") if number else "dim")
        for status, number in counts.items()
    )
    screen.say(Text.assemble(f"{len(summary.files)} files: ", line))
    _show_rejected(summary)
    _show_wait(waited)


def _show_rejected(summary: Summary) -> None:
    rows = [(file.path, file.reason or file.field or "no reason given") for file in summary.rejected()]
    if rows:
        screen.table(("Rejected", "Reason"), rows)


def _show_wait(waited: Waited | None) -> None:
    if waited is not None:
        screen.say(f"{waited.searchable} searchable after {waited.seconds:.1f} s")


def _wait_json(waited: Waited | None) -> dict[str, Any] | None:
    if waited is None:
        return None
    return {
        "searchable": waited.searchable,
        "dead": list(waited.dead),
        "pending": list(waited.pending),
        "seconds": round(waited.seconds, 3),
    }


def _must_be_complete(waited: Waited | None) -> None:
    if waited is None or waited.complete:
        return
    if waited.dead:
        raise Negative(
            f"{len(waited.dead)} events could not be processed: {', '.join(waited.dead[:5])}",
            hint="they wait in the dead letter queue; `cairn ingest EVENT_ID` shows one",
        )
    raise Negative(f"{len(waited.pending)} events are still on their way", hint="`cairn status` shows the lag")
