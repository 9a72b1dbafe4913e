"""`cairn stats`: how runbooks are used, what they lack, what is asked, and what comes in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from cairn_gateway.cli import screen
from cairn_gateway.cli.client import as_object, connect
from cairn_gateway.cli.commands.search import preview
from cairn_gateway.cli.exits import Negative
from cairn_gateway.cli.options import AsJson

QUESTION_CHARACTERS = 100
SHOWN = 20
"""Runbooks that are named for each reason; `--json` has all."""

Days = Annotated[float, typer.Option(min=0.01, help="Of so many days.")]

stats = typer.Typer(help="How runbooks are used, and what comes in.", no_args_is_help=True)


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(stats, name="stats")


@stats.command("runbooks")
def runbooks(
    *,
    days: Days = 90.0,
    runbook: Annotated[str | None, typer.Option(help="Only this one, by step.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Show how often runbooks were carried out, and how it went. Ends with 1 when none was."""
    found = _get("/stats/runbooks", {"days": days, "runbook_id": runbook}, as_json=as_json)["runbooks"]
    if found and not as_json:
        rows = found if runbook is None else [one | step for one in found for step in one["steps"]]
        columns = ("Runbook", "Step", "Executed", "Worked", "Failed", "Skipped", "Last", "Cited")
        shown = [
            (
                one["title"] or one["runbook_id"],
                one.get("step", ""),
                *(one[name] for name in ("executions", "worked", "failed", "skipped", "last_used")),
                one["cited"],
            )
            for one in rows
        ]
        screen.table(columns, shown, right=("Step", "Executed", "Worked", "Failed", "Skipped", "Cited"))
    if not found:
        raise Negative("no execution", hint="`cairn executions record` records one")


@stats.command("coverage")
def coverage(
    *,
    days: Days = 90.0,
    stale_days: Annotated[float, typer.Option(min=0.01, help="Not changed for so many days.")] = 365.0,
    as_json: AsJson = False,
) -> None:
    """Show which runbooks nobody needs, and which need somebody: never cited or used, stale, empty."""
    found = _get("/stats/coverage", {"days": days, "stale_days": stale_days}, as_json=as_json)
    if as_json:
        return
    screen.say(f"{found['runbooks']} runbooks")
    for name, reason in (
        ("empty", "without steps"),
        ("stale", f"not changed for {stale_days:g} days"),
        ("never_used", f"not carried out in {days:g} days"),
        ("never_cited", f"in no answer of {days:g} days"),
    ):
        _name(found[name], reason)


@stats.command("questions")
def questions(*, days: Days = 30.0, as_json: AsJson = False) -> None:
    """Show how many questions were answered in which way, by day, and the most asked. Ends with 1 without any."""
    found = _get("/stats/questions", {"days": days}, as_json=as_json)
    if found["days"] and not as_json:
        modes = sorted({one["mode"] for one in found["days"]})
        by_day: dict[str, dict[str, int]] = {}
        for one in found["days"]:
            by_day.setdefault(one["day"], {})[one["mode"]] = one["count"]
        rows = [(day, *(by_day[day].get(mode, 0) for mode in modes)) for day in sorted(by_day)]
        screen.table(("Day", *modes), rows, right=modes)
        asked = [(one["count"], preview(one["question"], QUESTION_CHARACTERS)) for one in found["most_asked"]]
        screen.table(("Asked", "Question"), asked, right=("Asked",))
    if not found["days"]:
        raise Negative("no question")


@stats.command("alerts")
def alerts(*, days: Days = 30.0, as_json: AsJson = False) -> None:
    """Show which alerts fired that no runbook is for: runbooks to write. Ends with 1 without any."""
    found = _get("/stats/alerts", {"days": days}, as_json=as_json)["alerts"]
    if found and not as_json:
        rows = [(one["fired"], one["name"], one["service"] or "", one["last_fired_at"]) for one in found]
        screen.table(("Fired", "Alert", "Service", "Last"), rows, right=("Fired",))
    if not found:
        raise Negative("no alert without a runbook")


@stats.command("ingest")
def ingest(
    *, hours: Annotated[float, typer.Option(min=0.01, help="Of so many hours.")] = 24.0, as_json: AsJson = False
) -> None:
    """Show what came in by hour and source, how it ended, and how long it took. Ends with 1 without any."""
    found = _get("/stats/ingest", {"hours": hours}, as_json=as_json)["counts"]
    if found and not as_json:
        rows = [
            (
                one["hour"],
                one["source"] or "(unknown)",
                one["state"],
                one["events"],
                "" if one["seconds"] is None else f"{one['seconds']:.1f}",
            )
            for one in found
        ]
        screen.table(("Hour", "Source", "State", "Events", "Median s"), rows, right=("Events", "Median s"))
    if not found:
        raise Negative("no event")


def _get(path: str, params: dict[str, Any], *, as_json: bool) -> dict[str, Any]:
    with connect() as cairn:
        response = cairn.request("GET", path, params={name: one for name, one in params.items() if one is not None})
    if as_json:
        screen.raw(response.content)
    return as_object(response)


def _name(found: Sequence[dict[str, Any]], reason: str) -> None:
    screen.say(f"\n{len(found)} {reason}")
    for one in found[:SHOWN]:
        screen.say(f"  {one['runbook_id']}\t{one['title']}")
    if len(found) > SHOWN:
        screen.say(f"  and {len(found) - SHOWN} more (--json)")
