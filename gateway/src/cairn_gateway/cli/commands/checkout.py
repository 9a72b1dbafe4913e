"""`cairn eval` and `cairn verify-fallback`: programs of the checkout, run with its Python."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the commands."""
    _ = app
