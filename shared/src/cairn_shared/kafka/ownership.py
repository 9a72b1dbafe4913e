"""The state machine of the partitions that this consumer owns. Pure: no broker, no thread, no clock of its own.

A partition is owned for an epoch: from its assignment until it is revoked, lost, or begun anew. Whatever comes
back from work of an older epoch is ignored, so nothing that a former owner does can move an offset.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from cairn_shared.kafka.offsets import OffsetTracker
from cairn_shared.kafka.policy import ConsumerPolicy
from cairn_shared.kafka.records import Partition, Record


@dataclass
class _Owned:
    epoch: int
    tracker: OffsetTracker
    moved_at: float
    committed: int | None = None
    asked: int | None = None
    low: int | None = None
    high: int | None = None
    held: bool = False
    full: bool = False
    told_paused: bool | None = None
    bytes: int = 0
    sizes: dict[int, tuple[int, int | None]] = field(default_factory=dict)

    @property
    def lag(self) -> int | None:
        """Records of the log that are not finished; None while nothing is known of it."""
        start = self.low if self.tracker.frontier is None else self.tracker.frontier
        return None if self.high is None or start is None else max(0, self.high - start)

    @property
    def has_work(self) -> bool:
        return bool(self.sizes) or (self.lag or 0) > 0


@dataclass(frozen=True)
class PartitionStatus:
    """What can be told of an owned partition; times in seconds, None where nothing is known."""

    partition: Partition
    epoch: int
    frontier: int | None
    in_flight: int
    lag: int | None
    oldest_timestamp_ms: int | None
    idle_for: float
    held: bool
    paused: bool


class Ownership:
    """Owned partitions: their epochs, what is in flight, what must pause, what may be committed."""

    def __init__(self, policy: ConsumerPolicy) -> None:
        self._policy = policy
        self._owned: dict[Partition, _Owned] = {}
        self._last_epoch = 0
        self._next_commit = 0.0

    @property
    def partitions(self) -> list[Partition]:
        """The owned partitions, sorted."""
        return sorted(self._owned)

    def epoch(self, partition: Partition) -> int | None:
        """The present epoch of `partition`; None when it is not owned."""
        owned = self._owned.get(partition)
        return owned.epoch if owned else None

    def take(self, partition: Partition, start: int | None, now: float, *, committed: int | None = None) -> int:
        """Own `partition` from offset `start` on (None: the log's beginning), in a new epoch, which is returned."""
        self._last_epoch += 1
        self._owned[partition] = _Owned(self._last_epoch, OffsetTracker(start), now, committed=committed)
        return self._last_epoch

    def release(self, partitions: Iterable[Partition]) -> None:
        """Forget these partitions, and with them everything in flight."""
        for partition in partitions:
            self._owned.pop(partition, None)

    def fetched(self, record: Record, now: float) -> int | None:
        """Note a fetched record and return the epoch that it belongs to; None when its partition is not owned.

        Raises:
            ValueError: its offset lies below one seen before in this epoch.
        """
        owned = self._owned.get(record.home)
        if owned is None:
            return None
        if not owned.sizes:
            owned.moved_at = now
        owned.tracker.hand_out(record.offset)
        owned.sizes[record.offset] = (record.size, record.timestamp_ms)
        owned.bytes += record.size
        return owned.epoch

    def reached_end(self, partition: Partition, offset: int) -> None:
        """Note that the log ends at `offset`."""
        if owned := self._owned.get(partition):
            owned.tracker.reached_end(offset)
            owned.high = offset

    def high_watermark(self, partition: Partition, offset: int) -> None:
        """Note the high watermark that came with the last fetch, which may be older than what is known."""
        if owned := self._owned.get(partition):
            owned.high = max(offset, owned.high or 0)

    def log_range(self, partition: Partition, low: int, high: int) -> None:
        """Note where the log begins and ends, as the broker says."""
        if owned := self._owned.get(partition):
            owned.low, owned.high = low, max(high, owned.high or 0)

    def quiet(self) -> list[Partition]:
        """Partitions for which there seems to be nothing to do."""
        return [partition for partition in self.partitions if not self._owned[partition].has_work]

    def rest(self, now: float) -> None:
        """Who has nothing to do need not move: how long a partition stands still counts from the work that it has."""
        for owned in self._owned.values():
            if not owned.has_work:
                owned.moved_at = now

    def finished(self, partition: Partition, epoch: int, offsets: Iterable[int], now: float) -> bool:
        """Note durable effects; False, and without effect, when the epoch is over."""
        owned = self._current(partition, epoch)
        if owned is None:
            return False
        offsets = list(offsets)
        for offset in offsets:
            size, _ = owned.sizes.pop(offset, (0, None))
            owned.bytes -= size
        if owned.tracker.finish(offsets):
            owned.moved_at = now
        return True

    def alive(self, partition: Partition, epoch: int, now: float) -> None:
        """Note that work on the partition goes on although nothing finishes (a failed attempt, a halt)."""
        if owned := self._current(partition, epoch):
            owned.moved_at = now

    def hold(self, partition: Partition, epoch: int, *, held: bool) -> None:
        """Pause the partition while its work backs off, or let it go on."""
        if owned := self._current(partition, epoch):
            owned.held = held

    def pausing(self) -> tuple[list[Partition], list[Partition]]:
        """What to pause and what to resume now; counts as done.

        A partition just taken is told its state once in any case: a pause may have outlived a former epoch.
        """
        pause: list[Partition] = []
        resume: list[Partition] = []
        for partition, owned in self._owned.items():
            owned.full = self._is_full(owned)
            wanted = owned.held or owned.full
            if owned.told_paused is not wanted:
                (pause if wanted else resume).append(partition)
                owned.told_paused = wanted
        return pause, resume

    def due_commits(self, now: float) -> dict[Partition, int]:
        """Offsets to commit now: at most once per commit interval, and one request per partition at a time."""
        if now < self._next_commit:
            return {}
        due = {
            partition: offset
            for partition, offset in self.uncommitted(self._owned).items()
            if self._owned[partition].asked is None
        }
        if due:
            self._next_commit = now + self._policy.commit_interval
            for partition, offset in due.items():
                self._owned[partition].asked = offset
        return due

    def uncommitted(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The frontiers of those of `partitions` that are owned and differ from what is committed."""
        result = {}
        for partition in partitions:
            owned = self._owned.get(partition)
            if owned is None:
                continue
            frontier = owned.tracker.frontier
            if frontier is not None and frontier != owned.committed:
                result[partition] = frontier
        return result

    def commit_answered(self, partition: Partition, offset: int, *, ok: bool) -> None:
        """Note how a commit ended. A failed one is asked for again with the next ones."""
        owned = self._owned.get(partition)
        if owned is None:
            return
        if owned.asked == offset:
            owned.asked = None
        if ok:
            owned.committed = offset

    def forget_requests(self) -> None:
        """Count commits without an answer as failed."""
        for owned in self._owned.values():
            owned.asked = None

    def status(self, now: float) -> list[PartitionStatus]:
        """The state of every owned partition."""
        return [self._status(partition, owned, now) for partition, owned in sorted(self._owned.items())]

    def stuck(self, now: float) -> list[PartitionStatus]:
        """Partitions with lag that showed no sign of life for `stuck_after` seconds."""
        return [
            status
            for status in self.status(now)
            if status.idle_for >= self._policy.stuck_after and self._owned[status.partition].has_work
        ]

    def _current(self, partition: Partition, epoch: int) -> _Owned | None:
        owned = self._owned.get(partition)
        return owned if owned is not None and owned.epoch == epoch else None

    def _is_full(self, owned: _Owned) -> bool:
        share = self._policy.resume_at if owned.full else 1.0
        return (
            len(owned.sizes) >= self._policy.buffer_records * share or owned.bytes >= self._policy.buffer_bytes * share
        )

    @staticmethod
    def _status(partition: Partition, owned: _Owned, now: float) -> PartitionStatus:
        oldest = next(iter(owned.sizes.values()))[1] if owned.sizes else None
        return PartitionStatus(
            partition=partition,
            epoch=owned.epoch,
            frontier=owned.tracker.frontier,
            in_flight=len(owned.sizes),
            lag=owned.lag,
            oldest_timestamp_ms=oldest,
            idle_for=now - owned.moved_at,
            held=owned.held,
            paused=bool(owned.told_paused),
        )
