"""When deliveries reached this process: no two at the same moment, and never an earlier one after a later one."""

from __future__ import annotations

from datetime import datetime, timedelta

from cairn_shared.clock import Clock

_LEAST = timedelta(microseconds=1)


class Arrivals:
    """The clock of deliveries. It stands nearly still while the machine's clock is set back."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: datetime | None = None

    def now(self) -> datetime:
        """A moment later than every one before it."""
        now = self._clock.now()
        if self._last is not None and now <= self._last:
            now = self._last + _LEAST
        self._last = now
        return now
