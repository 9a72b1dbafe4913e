"""A new embedding model: its space is filled beside the one that searches use, and becomes that one when complete.

Progress is the table itself, so whoever dies in the middle is followed by whoever comes next. Chunks that ingest wrote
without a vector of some model are found and filled in the same way.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cairn_ingest_consumer.embedders import Embedders, Served
from cairn_ingest_consumer.embedding import embed_all
from cairn_ingest_consumer.errors import TextRefused
from cairn_ingest_consumer.metrics import RebuildMetrics
from cairn_ingest_consumer.model import Vector
from cairn_ingest_consumer.ports import FillableSpaces
from cairn_shared.clock import Clock
from cairn_shared.errors import CairnError, TransientError
from cairn_shared.logging import get_logger

log = get_logger(__name__)

FIRST = uuid.UUID(int=0)


@dataclass(frozen=True)
class RebuildPolicy:
    """Texts of one batch; the share of time that is spent on it; seconds between looks for something to do."""

    batch: int = 32
    share: float = 0.5
    interval: float = 15.0
    patience: float = 10.0
    """Seconds that a batch waits for ingest to have nothing in hand; then it goes all the same."""


class Rebuild:
    """The background task of a replica. Of all replicas one fills at a time."""

    def __init__(
        self,
        embedders: Embedders,
        store: FillableSpaces,
        metrics: RebuildMetrics,
        clock: Clock,
        *,
        policy: RebuildPolicy,
        busy: Callable[[], bool],
    ) -> None:
        self._embedders = embedders
        self._store = store
        self._metrics = metrics
        self._clock = clock
        self._policy = policy
        self._busy = busy

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            delay = self._policy.interval
            try:
                await self.once()
            except CairnError as exc:
                retry_after = exc.retry_after if isinstance(exc, TransientError) else None
                delay = max(delay, retry_after or 0.0)
                log.warning("vectors are not being rebuilt", error=exc.detail)
            except Exception:
                log.exception("rebuilding vectors failed")
            await self._clock.sleep(delay)

    async def once(self) -> None:
        """Fill every space that searches use or will use and that an embedder of ours can fill; switch if complete.

        Raises:
            TransientError: a store or an embedder is away.
        """
        await self._embedders.refresh()
        plan = await self._embedders.plan()
        for served in (plan.main, *plan.others):
            if served.space.state in ("active", "building"):
                await self._complete(served)

    async def _complete(self, served: Served) -> None:
        space = served.space
        refused = await self._fill(served)
        missing = await self._store.missing(space)
        self._metrics.missing(space.fingerprint, missing)
        if refused:
            problem = f"the embedder refuses {len(refused)} of its chunks, the first is {min(refused)}"
            log.error("an embedding model cannot be completed", model=space.model, problem=problem)
            await self._store.note(space, problem)
        elif not missing:  # who found nothing to do while another replica fills knows of no problem, nor of its end
            await self._store.note(space, None)
        if space.state == "building" and not missing and await self._store.switch(space):
            self._metrics.switched()
            log.info("searches use another embedding model", model=space.model, fingerprint=space.fingerprint)

    async def _fill(self, served: Served) -> set[str]:
        """Rounds over the chunks without a vector until one can do nothing; the texts that the embedder refuses."""
        refused: set[str] = set()
        while await self._round(served, refused):
            pass
        return refused

    async def _round(self, served: Served, refused: set[str]) -> int:
        after, written = FIRST, 0

        async def embed(texts: Mapping[str, str]) -> Mapping[str, Vector]:
            return await self._embed(served, {sha: text for sha, text in texts.items() if sha not in refused}, refused)

        while True:
            await self._wait_for_ingest()
            started = self._clock.monotonic()
            filled = await self._store.fill(served.space, after, self._policy.batch, embed)
            if filled is None:
                return written
            written += filled.written
            after = filled.last
            self._metrics.filled(filled.written)
            await self._clock.sleep((self._clock.monotonic() - started) * (1 / self._policy.share - 1))

    async def _embed(self, served: Served, texts: dict[str, str], refused: set[str]) -> Mapping[str, Vector]:
        """Vectors of `texts`, without those that the embedder refuses: they must not keep the others waiting."""
        while texts:
            try:
                vectors = await embed_all(served.endpoint.cutting, list(texts.values()), served.model.fingerprint)
            except TextRefused as exc:
                sha = list(texts)[exc.index]
                log.warning("the embedder refuses a chunk", embed_sha=sha, reason=exc.detail)
                refused.add(sha)
                del texts[sha]
            except TransientError:
                self._embedders.failed(served)
                raise
            else:
                return dict(zip(texts, vectors, strict=True))
        return {}

    async def _wait_for_ingest(self) -> None:
        until = self._clock.monotonic() + self._policy.patience
        while self._busy() and self._clock.monotonic() < until:
            await self._clock.sleep(0.05)
