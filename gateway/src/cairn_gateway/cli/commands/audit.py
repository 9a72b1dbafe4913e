"""`cairn audit`: who did what."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from cairn_gateway.cli import screen
from cairn_gateway.cli.client import connect
from cairn_gateway.cli.exits import Negative
from cairn_gateway.cli.options import AsJson

PAGE = 500


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("audit")(audit)


def audit(
    *,
    user: Annotated[str | None, typer.Option(help="Only by this user.", show_default=False)] = None,
    action: Annotated[str | None, typer.Option(help="Only this, `dlq.replay` say.", show_default=False)] = None,
    target: Annotated[
        str | None, typer.Option(help="Only about this letter, replay or user.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, newest first.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Show what operators and admins did, newest first. Ends with 1 when there is nothing."""
    wanted = {"user": user, "action": action, "target": target, "limit": min(limit, PAGE)}
    with connect() as cairn:
        found = list(islice(cairn.pages("/audit", "lines", params=wanted), limit))
    if as_json:
        screen.data({"lines": found})
    elif found:
        rows = [(one["at"], one["user_id"], one["action"], one["target"], one["detail"]) for one in found]
        screen.table(("At", "User", "Action", "Target", "Detail"), rows)
    if not found:
        raise Negative("nothing of that kind was done")
