"""Options and arguments that mean the same in every command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from cairn_gateway.cli.exits import Rejected, UsageError

AsJson = Annotated[bool, typer.Option("--json", help="Print the response as JSON and nothing else.")]
K = Annotated[int | None, typer.Option("-k", "--k", min=1, help="How many steps.", show_default=False)]

MAX_INPUT_BYTES = 8 * 1024 * 1024


def read_text(name: str, what: str) -> str:
    """The text of the file `name`, or of stdin for `-`; `what` is its name in messages.

    Raises:
        UsageError: it cannot be read. Rejected: it is too large or not UTF-8.
    """
    try:
        if name == "-":
            content = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
        else:
            with Path(name).open("rb") as stream:
                content = stream.read(MAX_INPUT_BYTES + 1)
    except OSError as exc:
        raise UsageError(f"{what}: {name} cannot be read: {(exc.strerror or '').lower()}") from exc
    if len(content) > MAX_INPUT_BYTES:
        raise Rejected(f"{what}: over {MAX_INPUT_BYTES:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise Rejected(f"{what}: not UTF-8 text (byte {exc.start} is wrong)") from exc


def segment(identifier: str) -> str:
    """`identifier` as one segment of a URL's path, whatever it holds.

    Raises:
        UsageError: a client would drop or resolve it before it is sent.
    """
    if identifier in {"", ".", ".."}:
        raise UsageError(f"{identifier!r} is no id")
    return quote(identifier, safe="")
