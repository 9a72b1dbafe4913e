"""Which offset may be committed: the lowest that is not finished, never the highest seen (invariant I2)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable


class OffsetTracker:
    """The records of one partition that were handed out and are not yet finished. Pure.

    `frontier` is what may be committed: every offset below it is finished, so a successor that starts there
    misses nothing. It is None until something is known.
    """

    def __init__(self, start: int | None = None) -> None:
        self._open: OrderedDict[int, bool] = OrderedDict()
        self._next = start

    @property
    def frontier(self) -> int | None:
        """The lowest unfinished offset, or one past the last record when all are finished."""
        return next(iter(self._open)) if self._open else self._next

    @property
    def expected(self) -> int | None:
        """The lowest offset that the next record can have."""
        return self._next

    def unfinished(self) -> list[int]:
        """Offsets that were handed out and not finished, ascending."""
        return [offset for offset, finished in self._open.items() if not finished]

    def hand_out(self, offset: int) -> None:
        """Note that the record at `offset` is being worked on.

        Raises:
            ValueError: it lies below a record handed out before, so this is not the log that was read so far.
        """
        if self._next is not None and offset < self._next:
            raise ValueError(f"offset {offset} after {self._next - 1}")
        self._open[offset] = False
        self._next = offset + 1

    def finish(self, offsets: Iterable[int]) -> bool:
        """Note that the effects of these records are durable; True when the frontier moved.

        Offsets that are not in flight are ignored: they were finished already.
        """
        before = self.frontier
        for offset in offsets:
            if offset in self._open:
                self._open[offset] = True
        while self._open and self._open[lowest := next(iter(self._open))]:
            del self._open[lowest]
        return self.frontier != before

    def reached_end(self, offset: int) -> None:
        """The broker says that no record lies below `offset` that was not handed out (end of partition)."""
        if self._next is None or offset > self._next:
            self._next = offset
