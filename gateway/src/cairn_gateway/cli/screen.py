"""Where output goes: data to stdout, everything else to stderr; plain text wherever nobody looks.

What came from runbooks and events is printed as text: no markup is read from it and no control
character of it reaches the terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

ROOM_FOR_TEXT = 16
"""Characters that a column of prose needs at least."""
Advance = Callable[[int], None]
_CONTROL = {code: "\N{REPLACEMENT CHARACTER}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
_CONTROL[ord("\r")] = ""


def clean(text: str) -> str:
    """`text` without characters that steer a terminal (ECMA-48 C0 and C1, except line feed and tab)."""
    return text.translate(_CONTROL)


def interactive() -> bool:
    """Whether a person looks at stdout."""
    return console().is_terminal


def width() -> int:
    """Characters on a line of the terminal."""
    return console().width


def console(*, stderr: bool = False) -> Console:
    """stdout, or stderr; colours only where a terminal shows them and NO_COLOR is not set."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def say(text: str | Text = "", *, style: str | None = None) -> None:
    """One piece of data for the reader on stdout; long lines are left to the terminal, so they copy whole."""
    if interactive():
        console().print(clean(text) if isinstance(text, str) else text, style=style, soft_wrap=True)
    else:
        sys.stdout.write(clean(str(text)) + "\n")


def note(message: str, *, style: str | None = None) -> None:
    """A message about the work, on stderr."""
    console(stderr=True).print(clean(message), style=style, soft_wrap=True)


def raw(body: bytes) -> None:
    """A response as it came, and a line feed."""
    sys.stdout.flush()
    sys.stdout.buffer.write(body.rstrip(b"\n") + b"\n")
    sys.stdout.buffer.flush()


def data(value: Any) -> None:
    """`value` as one line of JSON."""
    raw(json.dumps(value, ensure_ascii=False, default=str).encode(errors="backslashreplace"))


def mood(good: bool) -> str:
    """The colour of good and bad."""
    return "green" if good else "bold red"


def facts(values: Mapping[str, object]) -> None:
    """Names and values, one a line; names without a value are left out."""
    shown = {name: _cell(value) for name, value in values.items() if value not in (None, "", [])}
    width = max(map(len, shown), default=0) + 2
    for name, value in shown.items():
        say(f"{name:<{width}}{value}")


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """Rows for a person as a table; for a pipe as tab-separated lines without a heading.

    Columns named in `right` hold numbers.
    """
    if not interactive():
        for row in rows:
            say("\t".join(clean(_cell(value)).replace("\t", " ").replace("\n", " ") for value in row))
        return
    from rich import box
    from rich.table import Table

    ids = _single_words(columns, rows)
    if sum(ids.values()) + ROOM_FOR_TEXT * (len(columns) - len(ids)) + 2 * len(columns) > width():
        for row in rows:  # the terminal breaks the line, and what is copied from it is whole
            say("  ".join(cell for value in row if (cell := clean(_cell(value)))))
        return
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        number = column in right
        grid.add_column(
            column,
            justify="right" if number else "left",
            overflow="fold",
            no_wrap=column in ids,
            min_width=ids.get(column),
        )
    for row in rows:
        grid.add_row(*(_rich_cell(value) for value in row))
    console().print(grid)


def _single_words(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> dict[str, int]:
    """The columns of ids, paths and numbers, which must not be broken, each with the room that it needs."""
    cells = {column: [_cell(row[place]) for row in rows] for place, column in enumerate(columns)}
    return {
        column: max(map(len, (*texts, column)))
        for column, texts in cells.items()
        if not any(len(text.split()) > 1 for text in texts)
    }


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value)
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value)


def _rich_cell(value: object) -> Text:
    from rich.text import Text

    return value if isinstance(value, Text) else Text(clean(_cell(value)))


@contextmanager
def progress(title: str, total: int) -> Iterator[Advance]:
    """A bar on stderr while a person watches; the yielded function moves it on."""
    screen = console(stderr=True)
    if not screen.is_terminal or total == 0:
        yield lambda _: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=screen,
        transient=True,
    ) as bar:
        task = bar.add_task(title, total=total)
        yield lambda count: bar.advance(task, count)
