"""The model as the pipeline sees it: deadline > retries > attempt time-out, inside the circuit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from cairn_answerer.breaker import Circuit, State
from cairn_answerer.deadline import Deadline
from cairn_answerer.errors import RefusedByModelServer, RetryableFailure
from cairn_answerer.ports import Completion, JsonSchema, Message, Reader
from cairn_shared.clock import Clock
from cairn_shared.logging import get_logger
from cairn_shared.retry import Backoff

log = get_logger(__name__)


class ChatEndpoint(Protocol):
    """One attempt at a chat completion."""

    async def attempt(
        self, messages: Sequence[Message], reader: Reader, *, seconds: float, schema: JsonSchema | None = None
    ) -> Completion:
        """Raises ModelFailure."""
        ...


class Attempt(Protocol):
    """One attempt at the chat completion that is wanted."""

    async def __call__(self, *, seconds: float) -> Completion: ...


_BACKOFF = Backoff(base=0.25, factor=2.0, limit=4.0)


@dataclass(frozen=True)
class Patience:
    """How often and how long one answer is asked for; without `attempt_seconds` as long as there is time."""

    attempts: int = 3
    attempt_seconds: float | None = None
    backoff: Backoff = _BACKOFF
    shortest: float = 0.2


class ResilientModel:
    """Retries what may pass, within the seconds given; a probe of the circuit is a single attempt."""

    def __init__(
        self,
        endpoint: ChatEndpoint,
        circuit: Circuit,
        clock: Clock,
        patience: Patience,
        on_failure: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._endpoint = endpoint
        self._circuit = circuit
        self._clock = clock
        self._patience = patience
        self._on_failure = on_failure

    async def complete(
        self, messages: Sequence[Message], reader: Reader, *, seconds: float, schema: JsonSchema | None = None
    ) -> Completion:
        deadline = Deadline.after(self._clock, seconds)

        async def work(probing: bool) -> Completion:
            once = partial(self._endpoint.attempt, messages, reader, schema=schema)
            return await self._retried(once, reader, deadline, probing)

        return await self._circuit.call(work)

    async def _retried(self, once: Attempt, reader: Reader, deadline: Deadline, probing: bool) -> Completion:
        spent = 0.0

        async def attempt() -> Completion:
            nonlocal spent
            begun = self._clock.monotonic()
            seconds = min(self._patience.attempt_seconds or math.inf, deadline.remaining())
            if seconds <= 0:
                raise RetryableFailure("llm_timeout", "no time is left for the model")
            try:
                return await once(seconds=seconds)
            except (RetryableFailure, RefusedByModelServer) as exc:
                spent = self._clock.monotonic() - begun
                self._on_failure(exc.reason)
                log.warning("the model failed", reason=exc.reason, detail=exc.detail)
                raise

        retrying = AsyncRetrying(
            retry=retry_if_exception_type(RetryableFailure),
            wait=self._wait,
            stop=lambda state: (
                state.attempt_number >= self._patience.attempts
                # A probe is one attempt; and once others opened the circuit, nobody insists.
                or probing
                or reader.usable
                or self._circuit.state is not State.CLOSED
                or deadline.remaining() < state.upcoming_sleep + self._needed(state, spent)
            ),
            sleep=self._clock.sleep,
            reraise=True,
        )
        return await retrying(attempt)

    def _needed(self, state: RetryCallState, spent: float) -> float:
        """Seconds below which another attempt is not worth starting: whoever was too slow will be so again."""
        failure = state.outcome.exception() if state.outcome else None
        slow = isinstance(failure, RetryableFailure) and failure.reason == "llm_timeout"
        return max(spent, self._patience.attempt_seconds or 0.0) if slow else self._patience.shortest

    def _wait(self, state: RetryCallState) -> float:
        """Exponential with jitter, but never before the server wants to be asked again."""
        failure = state.outcome.exception() if state.outcome else None
        asked = failure.retry_after if isinstance(failure, RetryableFailure) else None
        return max(self._patience.backoff.delay(state.attempt_number), asked or 0.0)
