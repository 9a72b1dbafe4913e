"""Slowing down who sends wrong keys: each costs a look into MongoDB, and none is ever guessed by being fast."""

from __future__ import annotations

from dataclasses import dataclass

from cairn_shared.clock import Clock
from cairn_shared.errors import TooManyRequests


@dataclass(frozen=True)
class FailedKeyPolicy:
    """`free` wrong keys within `window` seconds cost an address nothing; after them each is answered `delay` seconds
    later, and while `waiting` of them wait no unknown key of that address is looked up. `remembered` addresses at most.
    """

    free: int = 30
    window: float = 60.0
    delay: float = 1.0
    waiting: int = 8
    remembered: int = 10_000


@dataclass
class _Failures:
    since: float
    count: int = 0
    waiting: int = 0


class FailedKeys:
    """Wrong keys by address. A key that is known to be good is never looked at here."""

    def __init__(self, clock: Clock, policy: FailedKeyPolicy = FailedKeyPolicy()) -> None:
        self._clock = clock
        self._policy = policy
        self._by_address: dict[str, _Failures] = {}

    def check(self, address: str) -> None:
        """Before a key is looked up.

        Raises:
            TooManyRequests: too many wrong ones wait already.
        """
        failures = self._by_address.get(address)
        if failures is not None and failures.waiting >= self._policy.waiting:
            raise TooManyRequests("too many wrong API keys came from this address", retry_after=self._policy.delay)

    async def slow_down(self, address: str) -> None:
        """A key was wrong: return when that may be told."""
        now = self._clock.monotonic()
        failures = self._by_address.get(address)
        if failures is None or (now - failures.since >= self._policy.window and not failures.waiting):
            if len(self._by_address) >= self._policy.remembered:
                self._forget(now)
            failures = self._by_address[address] = _Failures(now)
        failures.count += 1
        if failures.count <= self._policy.free:
            return
        failures.waiting += 1
        try:
            await self._clock.sleep(self._policy.delay)
        finally:
            failures.waiting -= 1

    def _forget(self, now: float) -> None:
        """Drop what is over; where nothing is, the oldest half."""
        kept = {
            address: one
            for address, one in self._by_address.items()
            if one.waiting or now - one.since < self._policy.window
        }
        if len(kept) >= self._policy.remembered:
            kept = dict(list(kept.items())[len(kept) // 2 :])
        self._by_address = kept
