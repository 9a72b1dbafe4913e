"""Recording beside the answers: a bounded queue, and a task that writes. No answer waits for it or fails by it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from cairn_gateway.metrics import Metrics
from cairn_gateway.questions.record import Asked, document_of
from cairn_shared.clock import Clock
from cairn_shared.errors import TransientError
from cairn_shared.logging import get_logger
from cairn_shared.retry import Backoff

log = get_logger(__name__)


class QuestionStore(Protocol):
    """Where questions are kept. Raises TransientError."""

    async def add(self, documents: Sequence[dict[str, Any]]) -> None: ...


@dataclass(frozen=True)
class RecordPolicy:
    """Questions are kept for `keep`; zero keeps none.

    At most `waiting` wait to be written, so that a store that is away costs questions of the log, never memory; a
    batch is tried `tries` times. At the end there are `farewell` seconds for what waits.
    """

    keep: timedelta = timedelta(days=30)
    waiting: int = 2000
    batch: int = 100
    tries: int = 3
    farewell: float = 2.0
    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.2, limit=5.0))


class Recorder:
    """Takes questions and writes them; what cannot be kept is counted."""

    def __init__(self, store: QuestionStore, clock: Clock, metrics: Metrics, policy: RecordPolicy) -> None:
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._policy = policy
        self._queue: asyncio.Queue[Asked] = asyncio.Queue(policy.waiting)

    def record(self, asked: Asked) -> None:
        """Keep a question, soon. Never waits, never raises."""
        if not self._policy.keep:
            return
        try:
            self._queue.put_nowait(asked)
        except asyncio.QueueFull:
            self._metrics.questions.labels("dropped").inc()

    async def run(self) -> None:
        """Write until cancelled, then what waits, within the time for that."""
        try:
            while True:
                await self._write([await self._queue.get()])
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._policy.farewell):
                    while not self._queue.empty():
                        await self._write([])

    async def _write(self, batch: list[Asked]) -> None:
        """Write `batch` and what waits behind it. A question that cannot be read must not end the log."""
        while len(batch) < self._policy.batch and not self._queue.empty():
            batch.append(self._queue.get_nowait())
        try:
            documents = await asyncio.to_thread(_documents, batch, self._policy.keep)
            await self._add(documents)
        except TransientError as exc:
            self._metrics.questions.labels("dropped").inc(len(batch))
            log.warning("questions were not recorded", questions=len(batch), reason=exc.detail)
        except Exception:
            self._metrics.questions.labels("dropped").inc(len(batch))
            log.exception("questions cannot be recorded", questions=len(batch))
        else:
            self._metrics.questions.labels("recorded").inc(len(batch))

    async def _add(self, documents: Sequence[dict[str, Any]]) -> None:
        for attempt in range(1, self._policy.tries):
            try:
                await self._store.add(documents)
            except TransientError:
                await self._clock.sleep(self._policy.backoff.delay(attempt))
            else:
                return
        await self._store.add(documents)


def _documents(batch: Sequence[Asked], keep: timedelta) -> list[dict[str, Any]]:
    return [document_of(asked, keep) for asked in batch]
