"""Dynamic batching: one model, one worker, many requests.

The worker takes what waits as soon as it is free, so nobody waits for a batch to fill; batches grow by themselves
while it is busy. A batch is bounded by tokens, padding included, and made of texts of similar length. Queries go
ahead of passages, yet passages get a turn after a number of query batches. Within a kind the text that has waited
longest is always in the next batch.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count, islice

import numpy as np

from cairn_embedder.metrics import EmbedderMetrics
from cairn_embedder.model import Kind, Tokens, Vector
from cairn_shared.clock import Clock
from cairn_shared.errors import CairnError, InvalidInput, TransientError
from cairn_shared.logging import get_logger

log = get_logger(__name__)
Encode = Callable[[Sequence[Sequence[int]]], Vector]


@dataclass(frozen=True)
class BatchPolicy:
    """How batches are made.

    Attributes:
        max_tokens: most tokens of a batch, padding included; a single longer text is a batch of its own.
        busy_tokens: the same for passages while queries come in, since the next query waits for the batch to end.
        busy_seconds: how long after a query that holds.
        window: how many of the longest waiting texts a batch is chosen from.
        max_queries: queries that may wait.
        max_passages: passages that may wait.
        query_turns: batches of queries in a row while passages wait.
    """

    max_tokens: int = 512
    busy_tokens: int = 256
    busy_seconds: float = 2.0
    window: int = 128
    max_queries: int = 256
    max_passages: int = 2048
    query_turns: int = 8


def plan_batch(lengths: Sequence[int], max_tokens: int) -> list[int]:
    """Indices of the batch that the first text is in, when texts are sorted by length and cut at `max_tokens`."""
    order = sorted(range(len(lengths)), key=lambda index: lengths[index])
    batch: list[int] = []
    for index in order:
        if batch and lengths[index] * (len(batch) + 1) > max_tokens:
            if 0 in batch:
                return batch
            batch = []
        batch.append(index)
    return batch


@dataclass(eq=False)
class _Item:
    """A text that waits."""

    number: int
    ids: Sequence[int]
    kind: Kind
    since: float
    result: asyncio.Future[Vector | CairnError]


class Batcher:
    """Queues texts and runs them through `encode` in its one thread. `run` must be running for `submit` to return."""

    def __init__(
        self, encode: Encode, probe: Sequence[int], policy: BatchPolicy, metrics: EmbedderMetrics, clock: Clock
    ) -> None:
        self._encode = encode
        self._probe = probe
        self._policy = policy
        self._metrics = metrics
        self._clock = clock
        self._queues: dict[Kind, OrderedDict[int, _Item]] = {"query": OrderedDict(), "passage": OrderedDict()}
        self._limits: dict[Kind, int] = {"query": policy.max_queries, "passage": policy.max_passages}
        self._numbers = count()
        self._wake = asyncio.Event()
        self._turns = 0
        self._last_query = -math.inf
        self._tokens_per_second = 2000.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="inference")
        self.is_healthy = True

    async def submit(self, texts: Sequence[Tokens], kind: Kind) -> list[Vector | CairnError]:
        """The vector of each text, or the error of those that the model cannot embed. Cancelling takes them back.

        Raises:
            TransientError: the queue is full.
        """
        queue = self._queues[kind]
        if queue and len(queue) + len(texts) > self._limits[kind]:
            self._metrics.refused.labels("queue-full").inc(len(texts))
            waiting = sum(len(item.ids) for item in queue.values())
            retry_after = math.ceil(max(1.0, waiting / self._tokens_per_second))
            raise TransientError(f"{len(queue)} texts are waiting already", retry_after=retry_after)
        now, loop = self._clock.monotonic(), asyncio.get_running_loop()
        items = [_Item(next(self._numbers), one.ids, kind, now, loop.create_future()) for one in texts]
        queue.update((item.number, item) for item in items)
        self._last_query = now if kind == "query" else self._last_query
        self._count(kind)
        self._wake.set()
        try:
            return await asyncio.gather(*(item.result for item in items))
        finally:
            for item in items:
                queue.pop(item.number, None)
            self._count(kind)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                if any(self._queues.values()):
                    await self._embed(self._next())
                else:
                    self._wake.clear()
                    await self._wake.wait()
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _count(self, kind: Kind) -> None:
        self._metrics.waiting.labels(kind).set(len(self._queues[kind]))

    def _next(self) -> list[_Item]:
        queries, passages = self._queues["query"], self._queues["passage"]
        is_query_turn = bool(queries) and (not passages or self._turns < self._policy.query_turns)
        self._turns = self._turns + 1 if is_query_turn and passages else 0
        queue = queries if is_query_turn else passages
        now = self._clock.monotonic()
        is_busy = not is_query_turn and now - self._last_query < self._policy.busy_seconds
        max_tokens = min(self._policy.max_tokens, self._policy.busy_tokens) if is_busy else self._policy.max_tokens
        window = list(islice(queue.values(), self._policy.window))
        batch = [window[index] for index in plan_batch([len(item.ids) for item in window], max_tokens)]
        for item in batch:
            del queue[item.number]
            self._metrics.wait.labels(item.kind).observe(now - item.since)
        self._count(batch[0].kind)
        return batch

    async def _embed(self, batch: Sequence[_Item]) -> None:
        """Run a batch; one that fails is halved until the text at fault is alone."""
        batch = [item for item in batch if not item.result.done()]
        if not batch:
            return
        try:
            vectors = await self._run([item.ids for item in batch])
        except Exception as exc:  # noqa: BLE001 - whatever the model raises concerns this batch only
            self._metrics.batch_failures.inc()
            if len(batch) == 1:
                _settle(batch[0], await self._blame(exc))
                return
            middle = len(batch) // 2
            await self._embed(batch[:middle])
            await self._embed(batch[middle:])
            return
        self.is_healthy = True
        lengths = np.linalg.norm(vectors, axis=1)
        for item, vector, length in zip(batch, vectors, lengths, strict=True):
            is_usable = bool(np.isfinite(length)) and abs(float(length) - 1.0) < 1e-2
            _settle(item, vector if is_usable else InvalidInput("the model gives no usable vector for it"))

    async def _run(self, batch: Sequence[Sequence[int]]) -> Vector:
        started = self._clock.monotonic()
        vectors = await asyncio.get_running_loop().run_in_executor(self._thread, self._encode, batch)
        seconds = self._clock.monotonic() - started
        tokens = len(batch) * max(map(len, batch))
        self._tokens_per_second += 0.1 * (tokens / max(seconds, 1e-4) - self._tokens_per_second)
        self._metrics.encode.observe(seconds)
        self._metrics.batch_texts.observe(len(batch))
        self._metrics.batch_tokens.observe(tokens)
        return vectors

    async def _blame(self, error: Exception) -> CairnError:
        """The text's fault, unless memory ran out or the model fails on a harmless text too."""
        log.warning("a text could not be embedded", error=type(error).__name__)
        if isinstance(error, MemoryError) or "memory" in str(error).casefold():
            return TransientError("not enough memory to embed it now")
        try:
            await self._run([self._probe])
        except Exception as exc:  # noqa: BLE001 - any failure of the probe means that the model is at fault
            log.error("the model does not work", error=type(exc).__name__)  # noqa: TRY400 - the loop is going on
            self.is_healthy = False
            return TransientError("the model does not work at present")
        return InvalidInput("the model cannot embed it")


def _settle(item: _Item, result: Vector | CairnError) -> None:
    if not item.result.done():
        item.result.set_result(result)
