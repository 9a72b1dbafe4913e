"""The background task that has questions made for every runbook: beside ingest, which never waits for it.

A page is searchable without them; they come later, once for each content, and go with it (`DocumentStore.write` deletes
them in the transaction that changes the page). Who dies in between leaves a lease that runs out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from cairn_ingest_consumer.embedders import Embedders
from cairn_ingest_consumer.embedding import embed_all
from cairn_ingest_consumer.errors import NothingUsable, TextRefused
from cairn_ingest_consumer.expansion import Page, messages, questions
from cairn_ingest_consumer.metrics import ExpansionMetrics
from cairn_ingest_consumer.ports import ExpansionStore, QuestionModel
from cairn_shared.clock import Clock
from cairn_shared.errors import CairnError, TransientError
from cairn_shared.logging import get_logger
from cairn_shared.retry import Backoff

log = get_logger(__name__)

_BACKOFF = Backoff(base=30.0, limit=900.0)


@dataclass(frozen=True)
class ExpandPolicy:
    """Bounds.

    Attributes:
        most: questions of a page.
        characters: of a page, shown to the model.
        attempts: tries of one content whose output cannot be used; a model that is away does not count.
        seconds: for one call of the model.
        lease: seconds for which a page is left to who took it.
        interval: seconds between looks for something to do.
        patience: seconds that a page waits for ingest to have nothing in hand; then it goes all the same.
        vectors: questions embedded at once.
    """

    most: int = 6
    characters: int = 12_000
    attempts: int = 4
    seconds: float = 60.0
    lease: float = 300.0
    interval: float = 15.0
    patience: float = 10.0
    vectors: int = 32
    backoff: Backoff = _BACKOFF


class Expand:
    """Runs in every replica that is told to; pages are shared out among them."""

    def __init__(
        self,
        store: ExpansionStore,
        model: QuestionModel,
        embedders: Embedders,
        metrics: ExpansionMetrics,
        clock: Clock,
        *,
        policy: ExpandPolicy,
        busy: Callable[[], bool],
        nonce: Callable[[], str],
    ) -> None:
        self._store = store
        self._model = model
        self._embedders = embedders
        self._metrics = metrics
        self._clock = clock
        self._policy = policy
        self._busy = busy
        self._nonce = nonce

    async def run(self) -> None:
        """Until cancelled."""
        failures = 0
        while True:
            delay = self._policy.interval
            try:
                await self.once()
                failures = 0
            except CairnError as exc:
                failures += 1
                retry_after = exc.retry_after if isinstance(exc, TransientError) else None
                delay = max(delay, self._policy.backoff.delay(failures), retry_after or 0.0)
                log.warning("no questions are made", error=exc.detail, retry_in=round(delay))
            except Exception:
                log.exception("making questions failed")
            await self._clock.sleep(delay)

    async def once(self) -> None:
        """Every page that waits, then every vector that is missing.

        Raises:
            TransientError: PostgreSQL, the model or an embedder is away.
        """
        while (page := await self._store.take(self._policy.attempts, self._policy.lease)) is not None:
            await self._wait_for_ingest()
            await self._expand(page)
        await self._embed()
        self._metrics.counted(await self._store.counts(self._policy.attempts))

    async def _expand(self, page: Page) -> None:
        system, user = messages(page, self._nonce(), most=self._policy.most, characters=self._policy.characters)
        try:
            made = questions(await self._model.write(system, user, self._policy.seconds), page, most=self._policy.most)
        except NothingUsable as exc:
            self._metrics.made("unusable")
            attempt = await self._store.failed(page, exc.detail)
            until = self._clock.now() + timedelta(seconds=self._policy.backoff.delay(max(attempt, 1)))
            await self._store.postpone(page, until)
            log.warning(
                "no questions for a runbook", document=str(page.document_id), attempt=attempt, reason=exc.detail
            )
            return
        except TransientError:
            self._metrics.made("away")
            await self._store.postpone(page, self._clock.now())
            raise
        kept = await self._store.keep(page, made)
        self._metrics.made("kept" if kept else "outdated")

    async def _embed(self) -> None:
        """Vectors of every question, of every model that searches use or will use."""
        plan = await self._embedders.plan()
        for served in (plan.main, *plan.others):
            if served.space.state not in ("active", "building"):
                continue
            fingerprint = served.model.fingerprint
            while texts := await self._store.without_vector(fingerprint, self._policy.vectors):
                await self._wait_for_ingest()
                try:
                    vectors = await embed_all(served.endpoint.cutting, list(texts.values()), fingerprint)
                except TextRefused as exc:
                    # Without a vector nobody is led by it, so it is as good as not made.
                    await self._store.forget(list(texts)[exc.index])
                    continue
                await self._store.give(fingerprint, dict(zip(texts, vectors, strict=True)))

    async def _wait_for_ingest(self) -> None:
        until = self._clock.monotonic() + self._policy.patience
        while self._busy() and self._clock.monotonic() < until:
            await self._clock.sleep(0.05)
