"""A question over the wire and its answer on the screen: for one question and for a conversation."""

from __future__ import annotations

import json

from cairn_gateway.cli import answer as answers
from cairn_gateway.cli import screen, steps
from cairn_gateway.cli.client import Cairn, Json, as_object
from cairn_gateway.cli.exits import Unreachable

ASK_TIMEOUT = 120.0


def whole(cairn: Cairn, body: Json, *, as_json: bool) -> Json:
    """Ask and show the answer at once."""
    response = cairn.request("POST", "/ask", body=body, timeout=ASK_TIMEOUT)
    answer = as_object(response)
    if as_json:
        screen.raw(response.content)
    else:
        answers.show(answer)
    return answer


def streamed(cairn: Cairn, body: Json, *, as_json: bool) -> Json:
    """Ask and show each event when it comes; as JSON, one line `{event, data}` each.

    Raises:
        Unreachable: the answer broke off.
    """
    from httpx_sse import EventSource

    screenful = StreamScreen()
    with cairn.stream("/ask", body | {"stream": True}, timeout=ASK_TIMEOUT) as response:
        for event in EventSource(response).iter_sse():
            if not event.data:
                continue  # no event, by the standard
            data = json.loads(event.data)
            if as_json:
                screen.data({"event": event.event, "data": data})
            else:
                screenful.show(event.event, data)
            if event.event == "done":
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
