"""The relay: takes what waits in outbox and inbox to Kafka, in order for each key.

Polling is the truth; a wake-up (from this process, or from a change stream) only makes it look sooner. It marks an
entry after Kafka acknowledged it, so a crash in between publishes it twice, which the version guard of the consumer
makes harmless (invariant I3). Two relays at once, around a change of the lease, do no more than that.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from cairn_gateway.metrics import Metrics
from cairn_gateway.model import Entry
from cairn_gateway.ports import Publisher, Spool
from cairn_shared.clock import Clock
from cairn_shared.crashpoints import crash_at
from cairn_shared.errors import TooLarge, TransientError
from cairn_shared.logging import get_logger
from cairn_shared.retry import Backoff

log = get_logger(__name__)


@dataclass(frozen=True)
class RelayPolicy:
    """`batch` entries at a time; a look at least every `poll_interval` seconds; `backoff` while a store is away."""

    batch: int = 100
    poll_interval: float = 1.0
    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.2, limit=5.0))


@dataclass
class _Outcome:
    """What became of the entries of one key."""

    published: list[Entry] = field(default_factory=list)
    refused: list[tuple[uuid.UUID, str]] = field(default_factory=list)
    failure: TransientError | None = None


class Relay:
    """One per process; `run` is called by the leader only."""

    def __init__(
        self, spools: Sequence[Spool], publisher: Publisher, clock: Clock, metrics: Metrics, policy: RelayPolicy
    ) -> None:
        self._spools = spools
        self._publisher = publisher
        self._clock = clock
        self._metrics = metrics
        self._policy = policy
        self._wanted = asyncio.Event()

    def wake(self) -> None:
        """There may be something to publish."""
        self._wanted.set()

    async def run(self, term: int) -> None:
        """Publish until cancelled; waits, with back-off, while a store is away."""
        failures = 0
        while True:
            self._wanted.clear()
            try:
                moved = await self.drain(term)
            except TransientError as exc:
                failures += 1
                delay = self._policy.backoff.delay(failures)
                log.warning("the relay waits", reason=exc.detail, attempt=failures, retry_in=round(delay, 2))
                await self._clock.sleep(delay)
                continue
            failures = 0
            if not moved:
                await self._rest()

    async def drain(self, term: int) -> int:
        """Take one batch of each spool to Kafka; how many entries left the pending state.

        Raises:
            TransientError: a store is away; what was acknowledged before is marked all the same.
        """
        return sum([await self._drain(spool, term) for spool in self._spools])

    async def _drain(self, spool: Spool, term: int) -> int:
        entries = await spool.pending(self._policy.batch)
        if not entries:
            return 0
        keyed = sorted(entries, key=lambda entry: (entry.topic, entry.key))  # stable: order within a key stays
        chains = [list(chain) for _, chain in groupby(keyed, key=lambda entry: (entry.topic, entry.key))]
        outcomes = await asyncio.gather(*(self._publish(chain) for chain in chains))
        published = [entry for outcome in outcomes for entry in outcome.published]
        refused = [refusal for outcome in outcomes for refusal in outcome.refused]
        if published:
            crash_at("after_publish")
            await spool.mark_published([entry.event_id for entry in published], term)
        for event_id, detail in refused:
            log.error("kafka can never take an entry", queue=spool.name, event_id=str(event_id), detail=detail)
            await spool.refuse(event_id, detail)
        self._count(spool, published, len(refused), len(entries))
        failure = next((outcome.failure for outcome in outcomes if outcome.failure), None)
        if failure:
            raise failure
        return len(published) + len(refused)

    async def _publish(self, chain: Sequence[Entry]) -> _Outcome:
        """One after the other: what follows a failure waits, or it would overtake."""
        outcome = _Outcome()
        for entry in chain:
            crash_at("before_publish")
            try:
                await self._publisher.publish(entry.topic, entry.key, entry.value, entry.headers)
            except TooLarge as exc:
                outcome.refused.append((entry.event_id, exc.detail))
            except TransientError as exc:
                outcome.failure = exc
                break
            else:
                outcome.published.append(entry)
        return outcome

    def _count(self, spool: Spool, published: Sequence[Entry], refused: int, tried: int) -> None:
        now = self._clock.now()
        self._metrics.published.labels(spool.name, "published").inc(len(published))
        self._metrics.published.labels(spool.name, "refused").inc(refused)
        self._metrics.published.labels(spool.name, "failed").inc(tried - len(published) - refused)
        for entry in published:
            age = (now - entry.created_at).total_seconds()
            self._metrics.publish_seconds.labels(spool.name).observe(max(0.0, age))

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(self._policy.poll_interval):
                await self._wanted.wait()
        except TimeoutError:
            return
