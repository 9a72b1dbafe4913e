"""Where the time of a request went."""

from __future__ import annotations

from cairn_shared.clock import Clock


class Timings:
    """Milliseconds by part: `cache_ms`, `retrieval_ms`, `llm_ms`, and `total_ms` since the start."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._start = self._last = clock.monotonic()
        self.spent: dict[str, float] = {}

    def mark(self, part: str) -> None:
        """The time since the last mark was spent on `part`; `total` counts from the start."""
        now = self._clock.monotonic()
        since = self._start if part == "total" else self._last
        self.spent[f"{part}_ms"] = round((now - since) * 1000, 2)
        self._last = now

    @property
    def total(self) -> float:
        """Seconds since the start."""
        return self._clock.monotonic() - self._start
