"""The status page: every part asked at once, none of them able to hold the others up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from cairn_gateway.dlq.model import Tally
from cairn_gateway.model import Lease
from cairn_gateway.ports import Index, Spool
from cairn_gateway.schemas.operations import (
    AnswerStatus,
    DeadLetterStatus,
    PartitionStatus,
    QueueStatus,
    StatusAnswer,
)
from cairn_shared.api.consumer import Halt
from cairn_shared.clock import Clock
from cairn_shared.errors import CairnError
from cairn_shared.health import Readiness
from cairn_shared.runbooks.store import RunbookStore

T = TypeVar("T")
TIMEOUT = 2.0


class Overview:
    """Gathers `StatusAnswer`. `dependencies` are all of them, needed for readiness or not."""

    def __init__(
        self,
        *,
        dependencies: Readiness,
        names: Sequence[str],
        store: RunbookStore,
        spools: Sequence[Spool],
        index: Index,
        leader: Callable[[], Awaitable[Lease | None]],
        clock: Clock,
        version: str,
        inbox: str,
        tally: Callable[[], Awaitable[Tally]],
        halts: Callable[[], Awaitable[Sequence[Halt]]],
        partitions: Callable[[], Awaitable[list[PartitionStatus] | None]],
        answers: Callable[[], Awaitable[AnswerStatus | None]],
    ) -> None:
        self._dependencies = dependencies
        self._names = names
        self._store = store
        self._spools = spools
        self._index = index
        self._leader = leader
        self._clock = clock
        self._version = version
        self._inbox = inbox
        self._tally = tally
        self._halts = halts
        self._partitions = partitions
        self._answers = answers

    async def status(self) -> StatusAnswer:
        """How Cairn is; what cannot be asked is null."""
        (failures, index, runbooks, queues, leader), (dead, partitions, answers) = await asyncio.gather(
            asyncio.gather(
                self._dependencies.failures(),
                _or_none(self._index.status()),
                _or_none(self._store.count()),
                _or_none(self._queues()),
                _or_none(self._leader()),
            ),
            asyncio.gather(self._dead_letters(), _or_none(self._partitions()), _or_none(self._answers())),
        )
        relay: dict[str, Any] | None = None
        if leader is not None:
            relay = {"holder": leader.holder, "term": leader.term, "lease_until": leader.expires_at.isoformat()}
        return StatusAnswer(
            status="degraded" if failures or (dead and (dead.open or dead.halted)) else "ok",
            version=self._version,
            dependencies={name: failures.get(name, "ok") for name in self._names},
            index=index,
            runbooks=runbooks,
            queues=queues,
            relay=relay,
            inbox=self._inbox,
            dead_letters=dead,
            partitions=partitions,
            answers=answers,
        )

    async def _dead_letters(self) -> DeadLetterStatus | None:
        tally, halts = await asyncio.gather(_or_none(self._tally()), _or_none(self._halts()))
        if tally is None:
            return None
        oldest = tally.oldest_open
        age = (self._clock.now() - oldest).total_seconds() if oldest else 0.0
        return DeadLetterStatus(
            open=tally.open,
            replaying=tally.replaying,
            oldest_seconds=round(max(0.0, age), 3),
            halted=[f"{halt.topic}[{halt.partition}]" for halt in halts or () if halt.released_at is None],
        )

    async def _queues(self) -> dict[str, QueueStatus]:
        return {spool.name: await self._queue(spool) for spool in self._spools}

    async def _queue(self, spool: Spool) -> QueueStatus:
        depth = await spool.depth()
        oldest = depth.oldest_pending
        age = (self._clock.now() - oldest).total_seconds() if oldest else 0.0
        return QueueStatus(
            pending=depth.pending,
            unsettled=depth.unsettled,
            refused=depth.refused,
            oldest_seconds=round(max(0.0, age), 3),
        )


async def _or_none(question: Awaitable[T]) -> T | None:
    try:
        async with asyncio.timeout(TIMEOUT):
            return await question
    except (CairnError, TimeoutError):
        return None
