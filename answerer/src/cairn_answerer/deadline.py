"""The end of a request's patience, handed down so that every wait fits into what is left."""

from __future__ import annotations

from dataclasses import dataclass

from cairn_shared.clock import Clock


@dataclass(frozen=True)
class Deadline:
    """A point on the monotonic clock."""

    clock: Clock
    at: float

    @classmethod
    def after(cls, clock: Clock, seconds: float) -> Deadline:
        """`seconds` from now."""
        return cls(clock, clock.monotonic() + seconds)

    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - self.clock.monotonic())
