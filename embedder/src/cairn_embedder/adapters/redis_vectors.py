"""Vectors in Redis, by the hash of their text. Losing it, or never having it, costs time only."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

import numpy as np

from cairn_embedder.metrics import EmbedderMetrics
from cairn_embedder.model import Kind, Vector
from cairn_shared.clock import Clock
from cairn_shared.logging import get_logger
from cairn_shared.redis import Client, RedisFailure

log = get_logger(__name__)
REST_SECONDS = 2.0
"""After a failure Redis is left alone for so long, so that its time-outs are not paid by every request."""


class NoVectors:
    """The cache where there is no Redis."""

    async def get(self, texts: Sequence[str], kind: Kind) -> list[Vector | None]:  # noqa: ARG002 - the port's shape
        return [None] * len(texts)

    def put(self, texts: Sequence[str], kind: Kind, vectors: Sequence[Vector]) -> None:
        pass


class RedisVectors:
    """Keys are `emb:{fingerprint}:{kind}:{sha256 of the text}`, values little-endian float32.

    The fingerprint covers everything else that a vector depends on. Values are checked when read: a wrong length
    or norm counts as unknown.
    """

    def __init__(
        self,
        client: Client,
        fingerprint: str,
        dimension: int,
        metrics: EmbedderMetrics,
        clock: Clock,
        *,
        keep_seconds: int,
    ) -> None:
        self._client = client
        self._prefix = f"emb:{fingerprint}"
        self._dimension = dimension
        self._metrics = metrics
        self._clock = clock
        self._keep = keep_seconds
        self._rests_until = 0.0
        self._writes: set[asyncio.Task[None]] = set()

    async def get(self, texts: Sequence[str], kind: Kind) -> list[Vector | None]:
        if self._is_resting():
            return [None] * len(texts)
        try:
            values = await self._client.mget([self._key(text, kind) for text in texts])
        except RedisFailure as exc:
            self._rest(exc)
            self._metrics.cache.labels("error").inc(len(texts))
            return [None] * len(texts)
        vectors = [self._parsed(value) for value in values]
        hits = sum(vector is not None for vector in vectors)
        self._metrics.cache.labels("hit").inc(hits)
        self._metrics.cache.labels("miss").inc(len(texts) - hits)
        return vectors

    def put(self, texts: Sequence[str], kind: Kind, vectors: Sequence[Vector]) -> None:
        if self._is_resting():
            return
        values = {
            self._key(text, kind): vector.astype("<f4").tobytes() for text, vector in zip(texts, vectors, strict=True)
        }
        task = asyncio.get_running_loop().create_task(self._write(values))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def flush(self) -> None:
        """Wait for the writes that are under way."""
        await asyncio.gather(*self._writes)

    async def _write(self, values: dict[str, bytes]) -> None:
        try:
            async with self._client.pipeline(transaction=False) as pipeline:
                for key, value in values.items():
                    pipeline.set(key, value, ex=self._keep)
                await pipeline.execute()
        except RedisFailure as exc:
            self._rest(exc)

    def _key(self, text: str, kind: Kind) -> str:
        return f"{self._prefix}:{kind}:{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()}"

    def _parsed(self, value: bytes | str | None) -> Vector | None:
        if not isinstance(value, bytes) or len(value) != 4 * self._dimension:
            return None
        vector = np.frombuffer(value, dtype="<f4").astype(np.float32)
        return vector if abs(float(np.linalg.norm(vector)) - 1.0) < 1e-2 else None

    def _is_resting(self) -> bool:
        return self._clock.monotonic() < self._rests_until

    def _rest(self, error: Exception) -> None:
        self._rests_until = self._clock.monotonic() + REST_SECONDS
        log.warning("no vector cache", error=type(error).__name__)
