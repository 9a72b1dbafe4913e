"""`cairn questions`: what was asked, and which runbooks are missing."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import typer

from cairn_gateway.cli import screen
from cairn_gateway.cli.client import as_object, connect
from cairn_gateway.cli.commands.search import preview
from cairn_gateway.cli.exits import Negative
from cairn_gateway.cli.options import AsJson

PAGE = 500
QUESTION_CHARACTERS = 100


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("questions")(questions)


def questions(
    *,
    gaps: Annotated[
        bool, typer.Option("--gaps", help="What was refused, those that say the same together: runbooks to write.")
    ] = False,
    mode: Annotated[str | None, typer.Option(help="Only answered so: `refused`, say.", show_default=False)] = None,
    degraded: Annotated[bool | None, typer.Option("--degraded/--whole", help="Only (not) degraded ones.")] = None,
    user: Annotated[str | None, typer.Option(help="Only of this user.", show_default=False)] = None,
    runbook: Annotated[str | None, typer.Option(help="Only answered from this runbook.", show_default=False)] = None,
    since: Annotated[str | None, typer.Option(help="ISO 8601, with its zone.", show_default=False)] = None,
    days: Annotated[float, typer.Option(min=0.01, help="With --gaps: of so many days.")] = 30.0,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Show what was asked, newest first. Ends with 1 when there is nothing."""
    if gaps:
        _gaps(days=days, limit=limit, as_json=as_json)
        return
    wanted: dict[str, Any] = {
        "mode": mode,
        "degraded": None if degraded is None else str(degraded).lower(),
        "user_id": user,
        "runbook_id": runbook,
        "since": since,
        "limit": min(limit, PAGE),
    }
    with connect() as cairn:
        found = list(islice(cairn.pages("/questions", "questions", params=wanted), limit))
    if as_json:
        screen.data({"questions": found})
    elif found:
        columns = ("Asked", "User", "Mode", "Seconds", "Question", "Answered from", "Feedback", "Request")
        screen.table(columns, [_row(one) for one in found], right=("Seconds",))
    if not found:
        raise Negative("no question")


def _gaps(*, days: float, limit: int, as_json: bool) -> None:
    with connect() as cairn:
        response = cairn.request("GET", "/questions/gaps", params={"days": days, "limit": min(limit, PAGE)})
    found = as_object(response)["gaps"]
    if as_json:
        screen.raw(response.content)
    elif found:
        rows = [
            (
                one["count"],
                one["users"],
                one["last_asked_at"],
                preview(one["question"], QUESTION_CHARACTERS),
                [near["title"] for near in one["nearest"][:2]],
            )
            for one in found
        ]
        screen.table(("Asked", "Users", "Last", "Question", "Nearest"), rows, right=("Asked", "Users"))
    if not found:
        raise Negative("no question was refused")


def _row(one: dict[str, Any]) -> tuple[Any, ...]:
    places = dict.fromkeys(step["runbook_id"] for step in one["cited"])
    near = [f"({page['runbook_id']})" for page in one["nearest"][:2]]
    said = [said["verdict"] for said in one["feedback"]]
    question = preview(one["question"], QUESTION_CHARACTERS)
    mode = one["mode"] + (" degraded" if one["degraded"] else "")
    return (
        one["asked_at"],
        one["user_id"],
        mode,
        one["seconds"],
        question,
        list(places) or near,
        said,
        one["request_id"],
    )
