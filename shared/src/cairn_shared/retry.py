"""Waiting for what will come back: back-off with jitter, as a frozen value."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from cairn_shared.clock import Clock, SystemClock
from cairn_shared.logging import get_logger

log = get_logger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class Backoff:
    """Exponential back-off with equal jitter: half of the ceiling, and up to as much again by chance.

    AWS Architecture Blog, "Exponential Backoff And Jitter".
    """

    base: float = 0.2
    factor: float = 2.0
    limit: float = 10.0

    def delay(self, attempt: int, uniform: Callable[[float, float], float] = random.uniform) -> float:
        """Seconds to wait after failed attempt number `attempt`, counted from 1."""
        ceiling = min(self.limit, self.base * self.factor ** min(attempt - 1, 32))
        return uniform(ceiling / 2, ceiling)


async def until_up(
    name: str,
    connect: Callable[[], Awaitable[T]],
    *,
    backoff: Backoff = Backoff(limit=3.0),
    clock: Clock | None = None,
) -> T:
    """Call `connect` until it succeeds, saying in the log for what this process waits.

    Start order must not matter: a process waits for its stores as long as it takes.
    """
    clock = clock or SystemClock()
    attempt = 0
    while True:
        attempt += 1
        try:
            return await connect()
        except Exception as exc:  # noqa: BLE001 - whatever it is, the store is not there yet
            delay = backoff.delay(attempt)
            log.warning(
                "waiting for a dependency",
                dependency=name,
                attempt=attempt,
                error=type(exc).__name__,
                retry_in=round(delay, 2),
            )
            await clock.sleep(delay)
