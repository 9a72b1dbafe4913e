"""`cairn dlq`: records that could not be processed. `look.py` shows them, `act.py` replays, mends and discards."""

from __future__ import annotations

import typer

from cairn_gateway.cli.commands.dlq import act, carry, halts, look, replays

app = typer.Typer(
    help="Look at, try, replay, mend and discard dead letters.",
    no_args_is_help=True,
)


def register(root: typer.Typer) -> None:
    """Add the commands."""
    for group in (look, act, replays, carry, halts):
        group.register(app)
    root.add_typer(app, name="dlq")
