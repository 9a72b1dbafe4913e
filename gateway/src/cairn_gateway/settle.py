"""Settling: where the broker's log is not durable, an entry is kept until the index says what became of it.

An entry that stays unsettled is published again, after longer and longer waits; the consumer's version guard makes
a repetition harmless. But not while it may only be waiting its turn: a backlog to which every entry is added once more
would never end. So it takes that later entries were overtaking it, or that nothing settles at all. The same holds for
outbox and inbox (design I1).
"""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cairn_gateway.metrics import Metrics
from cairn_gateway.model import Entry
from cairn_gateway.ports import Ledger, Spool, Wake
from cairn_shared.api.index import LedgerEntry
from cairn_shared.clock import Clock
from cairn_shared.errors import TransientError
from cairn_shared.logging import get_logger

log = get_logger(__name__)


@dataclass(frozen=True)
class SettlePolicy:
    """Seconds: a look every `interval`; published again after `republish_after`, doubled each time up to `longest`.

    Nobody waits for an entry to be settled, so what can be looked at together is: without pause only while there are
    more than one `batch` of them. The gauges are set every `measured`.
    """

    interval: float = 0.5
    measured: float = 5.0
    republish_after: float = 10.0
    longest: float = 600.0
    batch: int = 1000

    def overdue(self, entry: Entry, age: timedelta) -> bool:
        """Whether an entry, published `age` ago for the `attempts`-th time, is to be published again."""
        wait = self.republish_after * 2.0 ** min(max(entry.attempts - 1, 0), 32)
        return age.total_seconds() >= min(wait, self.longest)

    def waits(self, progress: Progress, published: datetime, now: datetime) -> bool:
        """Whether an entry of that time may be in a queue that moves, and has not come to those of its time."""
        moves = progress.at is not None and (now - progress.at).total_seconds() < self.republish_after
        overtaken = (
            progress.front is not None and (progress.front - published).total_seconds() > self.republish_after / 2
        )
        return moves and not overtaken


@dataclass
class Progress:
    """When something was last settled (`at`), and when the latest of all that settled was published (`front`)."""

    at: datetime | None = None
    front: datetime | None = None

    def note(self, published: Iterable[datetime], now: datetime) -> None:
        """These were settled now."""
        for one in published:
            self.at, self.front = now, one if self.front is None else max(self.front, one)


class Settler:
    """Asks the index for published entries, and keeps the gauges of the queues; run by the leader."""

    def __init__(
        self,
        *,
        spools: Sequence[Spool],
        index: Ledger,
        clock: Clock,
        metrics: Metrics,
        policy: SettlePolicy,
        wake: Wake,
        indexed_letters: Callable[[Collection[uuid.UUID]], Awaitable[set[uuid.UUID]]] | None = None,
    ) -> None:
        self._spools = spools
        self._index = index
        self._clock = clock
        self._metrics = metrics
        self._policy = policy
        self._wake = wake
        self._indexed_letters = indexed_letters
        self._progress = {spool.name: Progress() for spool in spools}

    async def run(self) -> None:
        """Settle until cancelled."""
        measured = -math.inf
        while True:
            settled = [0]
            try:
                settled += [await self.settle(spool) for spool in self._spools if spool.settles]
                if self._clock.monotonic() - measured >= self._policy.measured:
                    await self._measure()
                    measured = self._clock.monotonic()
            except TransientError as exc:
                log.warning("settling waits", reason=exc.detail)
            if max(settled) < self._policy.batch:
                await self._clock.sleep(self._policy.interval)
            else:
                await asyncio.sleep(0)

    async def settle(self, spool: Spool) -> int:
        """One batch: settle what the index knows, publish again what is overdue; how many were settled.

        Raises:
            TransientError: MongoDB or the retriever is away.
        """
        entries = await spool.due_for_check(self._policy.batch)
        if not entries:
            return 0
        ledger = await self._index.ledger([entry.event_id for entry in entries])
        ledger = await self._without_lost_letters(ledger)
        await spool.settle({event_id: known.state for event_id, known in ledger.items()})
        now, progress = self._clock.now(), self._progress[spool.name]
        times = {entry.event_id: entry.published_at or entry.created_at for entry in entries}
        progress.note((times[event_id] for event_id in ledger), now)
        open_entries = [entry for entry in entries if entry.event_id not in ledger]
        overdue = {
            entry.event_id
            for entry in open_entries
            if self._policy.overdue(entry, now - times[entry.event_id])
            and not self._policy.waits(progress, times[entry.event_id], now)
        }
        await spool.check_later({entry.event_id for entry in open_entries} - overdue)
        if overdue:
            log.info("publishing again", queue=spool.name, entries=len(overdue))
            self._metrics.again.labels(spool.name).inc(len(overdue))
            await spool.publish_again(overdue)
            self._wake()
        return len(ledger)

    async def _without_lost_letters(self, ledger: dict[uuid.UUID, LedgerEntry]) -> dict[uuid.UUID, LedgerEntry]:
        """Without dead events whose letter the workbench does not have: it may have been lost with the broker's log.

        The event is published again, dies again, and leaves its letter again.
        """
        dead = {event_id for event_id, known in ledger.items() if known.state == "dead"}
        if not dead or self._indexed_letters is None:
            return ledger
        lost = dead - await self._indexed_letters(dead)
        return {event_id: known for event_id, known in ledger.items() if event_id not in lost}

    async def _measure(self) -> None:
        for spool in self._spools:
            depth = await spool.depth()
            oldest = depth.oldest_pending
            age = (self._clock.now() - oldest).total_seconds() if oldest else 0.0
            self._metrics.pending.labels(spool.name).set(depth.pending)
            self._metrics.oldest.labels(spool.name).set(max(0.0, age))
            self._metrics.unsettled.labels(spool.name).set(depth.unsettled)
            self._metrics.refused.labels(spool.name).set(depth.refused)
