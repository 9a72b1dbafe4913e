"""An additional search query written by the model: never instead of the question, and only if it comes in time."""

from __future__ import annotations

from collections.abc import Sequence

from cairn_answerer.breaker import Circuit, State
from cairn_answerer.cleaning import squeezed, visible
from cairn_answerer.errors import ModelFailure
from cairn_answerer.ports import Message
from cairn_answerer.resilience import ChatEndpoint
from cairn_shared.redaction import redact

MAX_QUERY = 300
_RULES = (
    "Rewrite the on-call engineer's question as one line of search keywords for a library of runbooks. "
    "Keep every name, number and identifier. No explanation."
)


class _Start:
    """Reads until there is more than a query can need."""

    def __init__(self) -> None:
        self._size = 0

    usable = False

    def restart(self) -> None:
        self._size = 0

    def feed(self, text: str) -> bool:
        self._size += len(text)
        return self._size < 10 * MAX_QUERY


class Refiner:
    """Asks once, outside the retries; a failure is no failure of the answer and is not counted by the circuit."""

    def __init__(self, endpoint: ChatEndpoint, circuit: Circuit, seconds: float) -> None:
        self._endpoint = endpoint
        self._circuit = circuit
        self._seconds = seconds

    async def refine(self, question: str) -> tuple[str | None, bool]:
        """(the query or None, whether it is missing because the model failed)."""
        if self._circuit.state is not State.CLOSED:
            return None, True
        messages: Sequence[Message] = [Message("system", _RULES), Message("user", redact(visible(question))[:2000])]
        try:
            completion = await self._endpoint.attempt(messages, _Start(), seconds=self._seconds)
        except ModelFailure:
            return None, True
        query = squeezed(visible(completion.text)).strip("\"'` ")[:MAX_QUERY]
        return query or None, False
