"""Time as a value that is passed in, so that tests can hold it still."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for durations, and a sleep that tests can skip."""

    def now(self) -> datetime:
        """The current time, always with UTC as its zone."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes backwards."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Yield to other tasks for `seconds`."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
