"""Questions: passed on to the answerer, with what only the gateway can add or say when the answerer is away."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from pydantic import ValidationError

from cairn_gateway.freshness import Revisions, with_pending
from cairn_gateway.metrics import Metrics
from cairn_gateway.ports import Answerer
from cairn_gateway.sse import Frame, frames
from cairn_shared import context
from cairn_shared.api.ask import AskRequest, AskResponse
from cairn_shared.errors import TransientError
from cairn_shared.logging import get_logger

log = get_logger(__name__)

UNAVAILABLE = (
    "Cairn cannot answer right now: its answering service cannot be reached. "
    "Search may still work (`cairn search`, POST /search), and the runbooks themselves can be read "
    "(`cairn runbooks ls`, GET /runbooks)."
)


class Asking:
    """The use case of `POST /ask`: it answers always, if only that it cannot."""

    def __init__(self, answerer: Answerer, revisions: Revisions, metrics: Metrics) -> None:
        self._answerer = answerer
        self._revisions = revisions
        self._metrics = metrics

    async def ask(self, request: AskRequest) -> AskResponse:
        """The answer.

        Raises:
            InvalidInput: the answerer refuses the question.
        """
        try:
            answer = await self._answerer.ask(request)
        except TransientError as exc:
            log.warning("the answerer is away", reason=exc.detail)
            answer = unavailable(exc)
        else:
            answer = await with_pending(answer, self._revisions)
        self._metrics.asked.labels(answer.mode).inc()
        return answer

    async def stream(self, request: AskRequest) -> AsyncGenerator[bytes, None]:
        """The answer as server-sent events. Closing the iterator cancels the question.

        Raises:
            InvalidInput: the answerer refuses the question, before the first event.
        """
        self._metrics.asked.labels("stream").inc()
        done = False
        try:
            async with self._answerer.stream(request) as chunks:
                async for frame in frames(chunks):
                    done = done or frame.event == "done"
                    yield await self._augmented(frame) if frame.event == "done" else frame.raw
        except TransientError as exc:
            log.warning("the answerer went away", reason=exc.detail)
            if not done:
                yield Frame.of("done", unavailable(exc).model_dump(mode="json")).raw

    async def _augmented(self, frame: Frame) -> bytes:
        try:
            answer = AskResponse.model_validate_json(frame.data)
        except ValidationError:
            return frame.raw
        augmented = await with_pending(answer, self._revisions)
        return frame.raw if augmented is answer else Frame.of("done", augmented.model_dump(mode="json")).raw


def unavailable(exc: TransientError) -> AskResponse:
    """The answer when there is no answerer: still 200, still in the answer's shape."""
    return AskResponse(
        answer=UNAVAILABLE,
        mode="unavailable",
        degraded=True,
        degraded_reason=exc.detail,
        request_id=context.request_id.get(),
    )
