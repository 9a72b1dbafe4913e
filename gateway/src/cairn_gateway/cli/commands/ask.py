"""`cairn ask`."""

from __future__ import annotations

from typing import Annotated

import typer

from cairn_gateway.cli import answer as answers
from cairn_gateway.cli import thread
from cairn_gateway.cli.alerts import parse_alert, question_for
from cairn_gateway.cli.asking import streamed, whole
from cairn_gateway.cli.client import Json, connect
from cairn_gateway.cli.exits import Negative, Unreachable, UsageError
from cairn_gateway.cli.options import AsJson, K, read_text


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ask")(ask)


def ask(
    question: Annotated[
        list[str] | None, typer.Argument(help="The question; `-` reads it from stdin.", show_default=False)
    ] = None,
    *,
    alert: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|-",
            help="The alert as JSON, as Alertmanager, Grafana or PagerDuty send it.",
            show_default=False,
        ),
    ] = None,
    again: Annotated[bool, typer.Option("-c", "--continue", help="The question may be about the last answer.")] = False,
    k: K = None,
    service: Annotated[str | None, typer.Option(help="Only this service's runbooks.", show_default=False)] = None,
    runbook: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Answer from this runbook; may be repeated.", show_default=False),
    ] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Show sources and claims as they come.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ask what to do; the answer cites the runbook steps that it rests on.

    With an alert the question may be left out: it is then made of the alert. Ends with 1 when no runbook covers it.
    """
    asked = " ".join(question or [])
    if asked == "-" and alert == "-":
        raise UsageError("stdin can be the question or the alert, not both")
    body: Json = {}
    if alert is not None:
        body["alert"] = parse_alert(read_text(alert, "--alert"))
    text = read_text("-", "QUESTION") if asked == "-" else asked
    if not text.strip() and "alert" in body:
        text = question_for(body["alert"])
    if not text.strip():
        raise UsageError("there is no question", hint='cairn ask "why does the replica lag?"')
    body["question"] = text
    if k is not None:
        body["k"] = k
    filters = {"service": service, "runbooks": runbook}
    if given_filters := {name: value for name, value in filters.items() if value}:
        body["filters"] = given_filters
    with connect() as cairn:
        if again:
            last = thread.recall(cairn.target.url)
            if last is None:
                raise UsageError(f"there is no answer of {cairn.target.url} to go on from", hint="ask without -c first")
            body["context"] = last.context()
        given = streamed(cairn, body, as_json=as_json) if stream else whole(cairn, body, as_json=as_json)
        if given["mode"] != "unavailable":
            thread.remember(thread.Thread.after(body, given), cairn.target.url)
    if given["mode"] == "refused":
        raise Negative("no runbook covers this")
    if given["mode"] == "unavailable":
        raise Unreachable(f"Cairn cannot answer now: {answers.reason(given)}")
