"""Single flight: identical questions asked at the same time are answered once.

Inside a process they share one task, which lives while anybody listens. Across replicas a lease in Redis decides who
works; the others wait for what that flight leaves behind, degraded or not, under its own token and for a few seconds
only. When the holder of the lease dies the lease runs out and one of the waiters takes over. Without Redis each
process flies alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from cairn_answerer.cache import decode, encode
from cairn_answerer.metrics import Metrics
from cairn_answerer.model import Done, Produced, Progress
from cairn_answerer.ports import FlightStore
from cairn_shared.clock import Clock
from cairn_shared.logging import get_logger
from cairn_shared.redis import RedisFailure
from cairn_shared.retry import Backoff

log = get_logger(__name__)

Publish = Callable[[Progress], None]
Produce = Callable[[Publish], Awaitable[Produced]]


_POLL = Backoff(base=0.015, factor=1.5, limit=0.12)


@dataclass(frozen=True)
class Policy:
    """`lease`: seconds until a silent leader counts as dead. `result`: seconds that waiters can fetch its result."""

    lease: float = 3.0
    result: float = 8.0
    poll: Backoff = _POLL


class Flight:
    """One task and everything that it said so far, for listeners who come at any time."""

    def __init__(self) -> None:
        self.said: list[Progress] = []
        self.listeners = 0
        self.task: asyncio.Task[None] | None = None
        self.failure: Exception | None = None
        self._news = asyncio.Event()

    @property
    def over(self) -> bool:
        """Nothing more will be said."""
        return self.failure is not None or (bool(self.said) and isinstance(self.said[-1], Done))

    def say(self, progress: Progress) -> None:
        """Tell all listeners."""
        self.said.append(progress)
        self.wake()

    def wake(self) -> None:
        """Let the listeners look."""
        self._news.set()
        self._news = asyncio.Event()

    async def listen(self) -> AsyncIterator[Progress]:
        """Everything from the beginning, as it comes."""
        heard = 0
        while True:
            news = self._news
            while heard < len(self.said):
                heard += 1
                yield self.said[heard - 1]
            if self.failure is not None:
                raise self.failure
            if self.over:
                return
            await news.wait()


class Flights:
    """All flights of this process."""

    def __init__(self, store: FlightStore, clock: Clock, metrics: Metrics, policy: Policy) -> None:
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._policy = policy
        self._flights: dict[str, Flight] = {}

    def flying(self, key: str) -> bool:
        """This process is at it: joining is cheaper than looking elsewhere."""
        flight = self._flights.get(key)
        return flight is not None and not flight.over

    async def fly(self, key: str, produce: Produce) -> AsyncGenerator[Progress, None]:
        """Progress of the flight for `key`, which `produce` carries out if nobody is at it.

        The caller who stops iterating stops listening; the last one to do so cancels the work.

        Raises:
            Exception: what `produce` raised.
        """
        flight = self._flights.get(key)
        if flight is None or flight.over:
            flight = Flight()
            self._flights[key] = flight
            flight.task = asyncio.create_task(self._run(key, flight, produce), name=f"flight {key}")
        else:
            self._metrics.cache("joined")
        flight.listeners += 1
        try:
            async for progress in flight.listen():
                yield progress
        finally:
            flight.listeners -= 1
            if flight.listeners == 0 and flight.task is not None and not flight.over:
                self._forget(key, flight)
                flight.task.cancel()

    def _forget(self, key: str, flight: Flight) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]

    async def _run(self, key: str, flight: Flight, produce: Produce) -> None:
        try:
            produced = await self._lead_or_follow(key, flight, produce)
            flight.say(Done(produced))
        except Exception as exc:  # noqa: BLE001 - handed to every listener
            flight.failure = exc
            flight.wake()
        finally:
            self._forget(key, flight)

    async def _lead_or_follow(self, key: str, flight: Flight, produce: Produce) -> Produced:
        token = secrets.token_hex(8)
        lock = f"cairn:flight:{key}"
        try:
            while (leader := await self._store.lead(lock, token, self._policy.lease)) != token:
                if (produced := await self._follow(lock, leader)) is not None:
                    self._metrics.cache("followed")
                    return produced
        except RedisFailure:
            log.debug("flight without redis")
            return await produce(flight.say)
        return await self._lead(lock, token, flight, produce)

    async def _follow(self, lock: str, leader: str) -> Produced | None:
        """The leader's result, or None when it is gone without one."""
        attempt = 0
        while True:
            attempt += 1
            await self._clock.sleep(self._policy.poll.delay(attempt))
            holder, result = await self._store.look(lock, leader)
            if result is not None:
                return decode(result)
            if holder != leader:
                return None

    async def _lead(self, lock: str, token: str, flight: Flight, produce: Produce) -> Produced:
        renewal = asyncio.create_task(self._renew(lock, token))
        result: bytes | None = None
        try:
            produced = await produce(flight.say)
            result = encode(produced)
            return produced
        finally:
            renewal.cancel()
            # Also when cancelled or failed: the next waiter need not sit out the lease.
            with contextlib.suppress(*RedisFailure):
                async with asyncio.timeout(1.0):
                    await self._store.land(lock, token, result, self._policy.result)

    async def _renew(self, lock: str, token: str) -> None:
        while True:
            await self._clock.sleep(self._policy.lease / 3)
            try:
                if not await self._store.renew(lock, token, self._policy.lease):
                    return
            except RedisFailure:
                continue
