"""Questions: passed on to the answerer, with what only the gateway can add or say when the answerer is away.

Answers pass through as the bytes they are: building and writing all their objects again would cost more than the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ValidationError

from cairn_gateway.caller import caller
from cairn_gateway.freshness import Cited, Revisions, with_pending
from cairn_gateway.metrics import Metrics
from cairn_gateway.ports import Answerer
from cairn_gateway.questions.record import Asked
from cairn_gateway.sse import Frame, frames
from cairn_shared import context
from cairn_shared.api.ask import AnswerMode, AskRequest, AskResponse
from cairn_shared.clock import Clock, SystemClock
from cairn_shared.errors import Overloaded, TransientError
from cairn_shared.logging import get_logger

log = get_logger(__name__)

Record = Callable[[Asked], None]
"""Takes a question to the log; never waits and never raises."""

UNAVAILABLE = (
    "Cairn cannot answer right now: its answering service cannot be reached. "
    "Search may still work (`cairn search`, POST /search), and the runbooks themselves can be read "
    "(`cairn runbooks ls`, GET /runbooks)."
)


class Glance(BaseModel):
    """The little of an answer that the gateway looks at."""

    answer: str
    mode: AnswerMode
    sources: list[Cited] = []


@dataclass
class _Told:
    """The answer as it was given, once it was; or that the question was refused as wrong."""

    answer: bytes | None = None
    refused: bool = False


class Asking:
    """The use case of `POST /ask`: it answers always, if only that it cannot."""

    def __init__(
        self,
        answerer: Answerer,
        revisions: Revisions,
        metrics: Metrics,
        deadline: float,
        *,
        clock: Clock | None = None,
        record: Record = lambda _: None,
    ) -> None:
        self._answerer = answerer
        self._clock = clock or SystemClock()
        self._record = record
        self._revisions = revisions
        self._metrics = metrics
        self.deadline = deadline
        """Seconds from the arrival of a question to its answer."""

    async def ask(self, request: AskRequest, seconds: float | None = None) -> AskResponse:
        """The answer, within `seconds` or the deadline.

        Raises:
            InvalidInput: the answerer refuses the question.
            Overloaded: there are too many questions.
        """
        return AskResponse.model_validate_json(
            await self.ask_json(request, self.deadline if seconds is None else seconds)
        )

    async def ask_json(self, request: AskRequest, seconds: float) -> bytes:
        """The same as JSON."""
        with self._recorded(request) as told:
            try:
                answer = await self._answerer.ask(request, seconds)
                mode, answer = await self._completed(answer)
            except Overloaded:
                raise
            except TransientError as exc:
                log.warning("the answerer is away", reason=exc.detail)
                instead = unavailable(exc.detail)
                mode, answer = instead.mode, instead.model_dump_json().encode()
            told.answer = answer
        self._metrics.asked.labels(mode).inc()
        return answer

    async def stream(self, request: AskRequest, seconds: float | None = None) -> AsyncGenerator[bytes, None]:
        """The answer as server-sent events. Closing the iterator cancels the question.

        Raises:
            InvalidInput: the answerer refuses the question, before the first event.
            Overloaded: there are too many questions, before the first event.
        """
        self._metrics.asked.labels("stream").inc()
        with self._recorded(request) as told:
            try:
                async with self._answerer.stream(request, self.deadline if seconds is None else seconds) as chunks:
                    async for frame in frames(chunks):
                        if frame.event == "done":
                            told.answer = frame.data
                        told.refused = told.refused or frame.event == "error"
                        yield await self._augmented(frame) if frame.event == "done" else frame.raw
            except Overloaded:
                raise
            except TransientError as exc:
                log.warning("the answerer went away", reason=exc.detail)
                if told.answer is None:
                    instead = Frame.of("done", unavailable(exc.detail).model_dump(mode="json"))
                    told.answer = instead.data
                    yield instead.raw

    @contextmanager
    def _recorded(self, request: AskRequest) -> Iterator[_Told]:
        """Record the question when it ends, however it ends; but not one that was refused as wrong."""
        told, started, asked_at = _Told(), self._clock.monotonic(), self._clock.now()

        def record(ended: Literal["busy", "left"] | None = None) -> None:
            seconds = self._clock.monotonic() - started
            ids = context.request_id.get(), context.traceparent.get()
            self._record(Asked(request, caller.get(), *ids, asked_at, seconds, told.answer, ended))

        try:
            yield told
        except Overloaded:
            record("busy")
            raise
        except (asyncio.CancelledError, GeneratorExit):
            record("left" if told.answer is None else None)
            raise
        if not told.refused:
            record()

    async def _augmented(self, frame: Frame) -> bytes:
        try:
            _, answer = await self._completed(frame.data)
        except TransientError:
            return frame.raw
        return frame.raw if answer is frame.data else Frame.written("done", answer).raw

    async def _completed(self, answer: bytes) -> tuple[AnswerMode, bytes]:
        """How it was answered; and `answer`, saying which of its runbooks have a newer revision on its way.

        Raises:
            TransientError: it is no answer.
        """
        try:
            glance = Glance.model_validate_json(answer)
            pending = await self._revisions.pending(glance.sources)
            return glance.mode, with_pending(answer, pending) if pending else answer
        except ValidationError as exc:
            raise TransientError("the answerer gave an answer that does not fit AskResponse") from exc


def unavailable(reason: str) -> AskResponse:
    """The answer when there is no answerer: still 200, still in the answer's shape."""
    return AskResponse(
        answer=UNAVAILABLE,
        mode="unavailable",
        degraded=True,
        degraded_reason=reason,
        request_id=context.request_id.get(),
    )
