"""The `cairn` command line: its commands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import errno
import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer
from typer.core import TyperGroup

from cairn_gateway.cli import screen
from cairn_gateway.cli.commands import (
    ask,
    audit,
    backfill,
    chat,
    dlq,
    events,
    load,
    mcp,
    operations,
    people,
    proofs,
    questions,
    repos,
    runbooks,
    search,
    stats,
)
from cairn_gateway.cli.exits import MEANINGS, CliError, ExitCode

SIGPIPE_EXIT = 141
_CANNOT_WRITE = {errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG}

EXIT_CODES = "\n".join(f"  {code:d}  {meaning}" for code, meaning in MEANINGS.items())
HELP = """Ask, search and run Cairn from a terminal or a script.

Finds Cairn by CAIRN_URL and CAIRN_API_KEY, otherwise by .cairn/env (written by `make run`) in this folder or a \
parent, otherwise at http://127.0.0.1:8000. Data goes to stdout, messages to stderr.
"""


class Group(TyperGroup):
    """Ends the process with the exit code of a `CliError`, and quietly when the reader of a pipe has left."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]  # typer.Context is what it is given
        _print_anything()
        try:
            result: object = super().invoke(ctx)
            sys.stdout.flush()
        except CliError as exc:
            screen.note(f"cairn: {exc.message}", style="red")
            if exc.hint:
                screen.note(f"       {exc.hint}")
            raise typer.Exit(exc.code) from exc
        except BrokenPipeError as exc:
            # What is buffered would fail again at exit, with a traceback.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(SIGPIPE_EXIT) from exc
        except OSError as exc:
            if exc.errno not in _CANNOT_WRITE:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            screen.note(f"cairn: the output cannot be written: {(exc.strerror or '').lower()}", style="red")
            raise typer.Exit(ExitCode.USAGE) from exc
        return result


app = typer.Typer(
    cls=Group,
    help=HELP,
    epilog=f"\b\nExit codes:\n{EXIT_CODES}",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (
    ask,
    chat,
    search,
    load,
    runbooks,
    repos,
    backfill,
    dlq,
    operations,
    people,
    audit,
    questions,
    events,
    stats,
    proofs,
    mcp,
):
    group.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        screen.say(f"cairn {version('cairn-gateway')}")
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """The options before the command."""


def _print_anything() -> None:
    """A runbook's text must not end the command because the terminal's encoding lacks a character."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(errors="backslashreplace")
