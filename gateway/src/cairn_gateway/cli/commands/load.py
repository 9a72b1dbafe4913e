"""`cairn import` and `cairn seed`: runbooks from files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from cairn_gateway.cli import indexing, screen, seeding
from cairn_gateway.cli.client import Cairn, connect
from cairn_gateway.cli.exits import Rejected, Unreachable, UsageError
from cairn_gateway.cli.folder import SUFFIXES
from cairn_gateway.cli.importing import Summary, Watch, count, import_folder
from cairn_gateway.cli.indexing import WAIT_SECONDS, Wait, WaitLimit
from cairn_gateway.cli.options import AsJson
from cairn_gateway.cli.waiting import Waited

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
        str | None,
        typer.Option(
            help="Whose they are, to keep equal paths of different folders apart and to filter by.", show_default=False
        ),
    ] = None,
    wait: Wait = False,
    wait_limit: WaitLimit = WAIT_SECONDS,
    strict: Annotated[bool, typer.Option("--strict", help="End with 3 when a file was rejected.")] = False,
    as_json: AsJson = False,
) -> None:
    """Load every *.md and *.markdown file; importing again changes nothing.

    A file that cannot be loaded is listed with its reason and does not stop the others.
    """
    if not folder.exists():
        raise UsageError(f"{folder} does not exist")
    if not folder.is_dir() and not folder.name.lower().endswith(SUFFIXES):
        raise UsageError(f"{folder} is no *.md or *.markdown file")
    with connect() as cairn:
        summary = _import(cairn, folder, source=source, prefix=prefix)
        waited = indexing.wait(cairn, summary.event_ids(), wait_limit) if wait else None
    if as_json:
        screen.data(summary.to_json() | ({"wait": waited.to_json()} if waited else {}))
    else:
        _show(summary, waited)
    if strict and summary.rejected():
        raise Rejected(f"{len(summary.rejected())} files were rejected")
    indexing.require_complete(waited)


def seed(
    data: Annotated[
        Path | None,
        typer.Option(help="The data folder; otherwise the checkout's, above the current folder.", show_default=False),
    ] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until everything is searchable.")] = False,
    wait_limit: WaitLimit = WAIT_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Load the demo's runbooks, users and executions; a second run changes nothing."""
    folder = seeding.find_data(data, Path.cwd())
    records = seeding.read_records(folder)
    with connect() as cairn:
        summary = _import(cairn, folder / "runbooks", source=None, prefix=None)
        counts = {"runbooks": summary.counts()} | seeding.put_records(cairn, records, on_wait=_note_once())
        waited = None if no_wait else indexing.wait(cairn, summary.event_ids(), wait_limit)
    if as_json:
        screen.data(
            {
                "data": str(folder),
                "counts": counts,
                "files": summary.to_json()["files"],
                "wait": waited.to_json() if waited else None,
            }
        )
    else:
        for name, counted in counts.items():
            _show_counts(f"{name}: ", counted)
        _show_files(summary)
        indexing.show(waited)
    if summary.rejected():
        raise Rejected(f"{len(summary.rejected())} runbooks were rejected")
    indexing.require_complete(waited)


def _import(cairn: Cairn, folder: Path, *, source: str | None, prefix: str | None) -> Summary:
    total = count(folder)
    if total == 0:
        raise UsageError(f"{folder} holds no *.md or *.markdown file")
    try:
        with screen.progress("importing", total) as advance:
            return import_folder(cairn, folder, source=source, prefix=prefix, watch=Watch(advance, _note_once()))
    except (KeyboardInterrupt, Unreachable):
        if cairn.met:
            screen.note("what was sent before is kept; the same command again does the rest", style="yellow")
        raise


def _note_once() -> Callable[[Unreachable], None]:
    """A note for each reason to wait, however often it is met."""
    seen: set[str] = set()

    def waiting(error: Unreachable) -> None:
        if error.message not in seen:
            screen.note(f"{error.message}; trying again", style="yellow")
        seen.add(error.message)

    return waiting


def _show(summary: Summary, waited: Waited | None) -> None:
    _show_counts(f"{len(summary.files)} files: ", summary.counts())
    _show_files(summary)
    indexing.show(waited)


def _show_counts(start: str, counts: Mapping[str, int]) -> None:
    from rich.text import Text

    parts = [
        Text(f"{number} {status}", STATUS_STYLES.get(status, "") if number else "dim")
        for status, number in counts.items()
    ]
    screen.say(Text.assemble(start, Text(", ").join(parts)))


def _show_files(summary: Summary) -> None:
    """What the authors of the files should know."""
    warned = [(file.path, warning) for file in summary.files for warning in file.warnings]
    if warned:
        screen.table(("Taken, but", "Warning"), warned)
    rows = [(file.path, file.reason or file.field or "no reason given") for file in summary.rejected()]
    if rows:
        screen.table(("Rejected", "Reason"), rows)
