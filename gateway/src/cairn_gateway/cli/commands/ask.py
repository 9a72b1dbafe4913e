"""`cairn ask`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from cairn_gateway.cli import answer as answers
from cairn_gateway.cli import screen, sse, steps
from cairn_gateway.cli.alerts import parse_alert, question_for
from cairn_gateway.cli.client import Cairn, Json, as_object, connect
from cairn_gateway.cli.exits import Negative, Unreachable, UsageError
from cairn_gateway.cli.options import AsJson, K, read_text

ASK_TIMEOUT = 120.0


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
        typer.Option(metavar="FILE|-", help="The alert as JSON, as Alertmanager sends it.", show_default=False),
    ] = None,
    k: K = None,
    service: Annotated[str | None, typer.Option(help="Only this service's runbooks.", show_default=False)] = None,
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
    if service is not None:
        body["filters"] = {"service": service}
    with connect() as cairn:
        given = _streamed(cairn, body, as_json=as_json) if stream else _whole(cairn, body, as_json=as_json)
    if given["mode"] == "refused":
        raise Negative("no runbook covers this")
    if given["mode"] == "unavailable":
        raise Unreachable(f"Cairn cannot answer now: {answers.reason(given)}")


def _whole(cairn: Cairn, body: Json, *, as_json: bool) -> Json:
    response = cairn.request("POST", "/ask", body=body, timeout=ASK_TIMEOUT)
    answer = as_object(response)
    if as_json:
        screen.raw(response.content)
    else:
        answers.show(answer)
    return answer


def _streamed(cairn: Cairn, body: Json, *, as_json: bool) -> Json:
    """Print each event when it comes; as JSON, one line `{event, data}` each."""
    screenful = StreamScreen()
    with cairn.stream("/ask", body | {"stream": True}, timeout=ASK_TIMEOUT) as response:
        for event in sse.parse(response.iter_lines()):
            data = json.loads(event.data)
            if as_json:
                screen.data({"event": event.name, "data": data})
            else:
                screenful.show(event.name, data)
            if event.name == "done":
                return dict(data)
    raise Unreachable("the answer broke off before its end")


class StreamScreen:
    """Shows an answer while it comes. What `done` holds is what counts: if it is not what was shown, it is shown."""

    def __init__(self) -> None:
        self._shown: list[steps.Block] = []
        self._sources: list[Json] = []
        self._narrator = steps.Narrator(steps.Desk(()))

    def show(self, event: str, data: Json) -> None:
        """One event of the stream; those of a newer Cairn are skipped."""
        if event == "sources":
            self._sources = data["sources"]
            self._narrator = steps.Narrator(steps.Desk(self._sources))
            screen.note(f"answering from {len(self._sources)} steps", style="dim")
        elif event == "claim":
            part = self._narrator.block(data)
            self._shown.append(part)
            answers.show_part(part)
        elif event == "done":
            told = steps.claims(data.get("claims", []), steps.Desk(data.get("sources", [])))
            if told and [part.text for part in told] == [part.text for part in self._shown]:
                answers.show_details(data, self._shown)
                return
            if self._shown:
                screen.say("(The whole answer, in the order of its runbook:)", style="yellow")
            answers.show(data)
