"""Leadership by a lease: one process at a time does the work, another takes over when it falls silent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from cairn_gateway.metrics import Metrics
from cairn_gateway.ports import Leases
from cairn_shared.clock import Clock
from cairn_shared.errors import TransientError
from cairn_shared.logging import get_logger
from cairn_shared.retry import Backoff

log = get_logger(__name__)

Work = Callable[[int], Awaitable[None]]
"""Runs until cancelled; it is given the term of the lease."""


@dataclass(frozen=True)
class LeasePolicy:
    """A lease lasts `seconds`, is renewed every quarter of that, and sought after every third."""

    seconds: float = 4.0
    name: str = "relay"
    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.2, limit=2.0))

    @property
    def renew_every(self) -> float:
        return self.seconds / 4

    @property
    def seek_every(self) -> float:
        return self.seconds / 3


class Leadership:
    """Seeks the lease for ever, and runs the work while it holds it."""

    def __init__(self, leases: Leases, holder: str, clock: Clock, metrics: Metrics, policy: LeasePolicy) -> None:
        self._leases = leases
        self._holder = holder
        self._clock = clock
        self._metrics = metrics
        self._policy = policy

    async def run(self, work: Work) -> None:
        """Lead whenever the lease can be had, until cancelled; then let it go, so that another need not wait."""
        try:
            while True:
                term, until = await self._seek()
                log.info("leading", lease=self._policy.name, term=term)
                self._metrics.leader.set(1)
                try:
                    await self._lead(work, term, until)
                finally:
                    self._metrics.leader.set(0)
                log.warning("no longer leading", lease=self._policy.name, term=term)
        finally:
            await self._release()

    async def _seek(self) -> tuple[int, float]:
        failures = 0
        while True:
            asked = self._clock.monotonic()
            try:
                lease = await self._leases.acquire(self._policy.name, self._holder, self._policy.seconds)
            except TransientError:
                failures += 1
                await self._clock.sleep(self._policy.backoff.delay(failures))
                continue
            failures = 0
            if lease.holder == self._holder:
                return lease.term, asked + self._policy.seconds
            await self._clock.sleep(self._policy.seek_every)

    async def _lead(self, work: Work, term: int, until: float) -> None:
        task = asyncio.ensure_future(work(term))
        try:
            while not task.done() and self._clock.monotonic() < until:
                await asyncio.wait((task,), timeout=self._policy.renew_every)
                if task.done():
                    break
                asked = self._clock.monotonic()
                try:
                    async with asyncio.timeout(max(0.05, until - asked)):
                        lease = await self._leases.acquire(self._policy.name, self._holder, self._policy.seconds)
                except (TransientError, TimeoutError):
                    continue  # it may still be renewed before it ends
                if lease.holder != self._holder or lease.term != term:
                    return
                until = asked + self._policy.seconds
        finally:
            task.cancel()
            await asyncio.wait((task,))
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the leader's work failed and begins anew", exc_info=error)
            await self._clock.sleep(self._policy.backoff.delay(1))

    async def _release(self) -> None:
        try:
            async with asyncio.timeout(1):
                await self._leases.release(self._policy.name, self._holder)
        except (TransientError, TimeoutError):
            log.warning("the lease could not be released and runs out by itself", lease=self._policy.name)
