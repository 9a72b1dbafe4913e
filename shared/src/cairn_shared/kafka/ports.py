"""What the engine needs from outside, and what it offers: the seams at which tests put scripted parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from cairn_shared.kafka.mail import Mail
from cairn_shared.kafka.records import Fetched, Partition, Record


class BatchHandler(Protocol):
    """What is done with the records."""

    async def handle(self, records: Sequence[Record]) -> None:
        """Process records of one partition, in order of their offsets.

        Returns only when every effect is durable: written, or dead-lettered and acknowledged. The same records
        may come again after any failure, to this process or to another.

        Raises:
            TransientError: nothing is wrong with the records; the engine pauses the partition and tries again.
            ConsumptionHalted: going on would do harm; the engine keeps the partition paused until somebody releases it
                (`Halts`), or another process owns it.
        """
        ...


class Halts(Protocol):
    """Where it is kept that a partition is halted, and where a person releases it. No method raises."""

    async def released(self, partition: Partition, reason: str) -> bool:
        """Say (again) that the partition is halted; whether somebody has released it. Asked for every few seconds."""
        ...

    async def over(self, partition: Partition) -> None:
        """The partition is not halted any more, or not by this process."""
        ...


class RebalanceListener(Protocol):
    """Called inside `fetch` and `close`, on the same thread."""

    def on_assign(self, partitions: Sequence[Partition]) -> None: ...
    def on_revoke(self, partitions: Sequence[Partition]) -> None: ...
    def on_lost(self, partitions: Sequence[Partition]) -> None: ...
    def on_commit(self, offsets: Mapping[Partition, int], failures: Mapping[Partition, str]) -> None: ...


class GroupConsumer(Protocol):
    """A member of a consumer group. One thread makes every call; only the named ones wait for the broker."""

    def subscribe(self, topics: Sequence[str], listener: RebalanceListener) -> None: ...

    def fetch(self, limit: int, timeout: float) -> list[Fetched]:
        """What has arrived, at most `limit`, after waiting up to `timeout` seconds for the first."""
        ...

    def pause(self, partitions: Iterable[Partition]) -> None: ...
    def resume(self, partitions: Iterable[Partition]) -> None: ...

    def commit_later(self, offsets: Mapping[Partition, int]) -> None:
        """Ask for a commit; the answer comes to `on_commit` during a later `fetch`."""
        ...

    def commit_now(self, offsets: Mapping[Partition, int]) -> dict[Partition, str]:
        """Commit and wait; returns the partitions that failed, with the error's name."""
        ...

    def committed(self, partitions: Sequence[Partition], timeout: float) -> dict[Partition, int | None]:
        """Committed offsets, None where there is none. Waits.

        Raises:
            TransientError: the coordinator did not answer.
        """
        ...

    def assign(self, starts: Mapping[Partition, int | None]) -> None:
        """Add partitions, each from its offset, None meaning the beginning of its log."""
        ...

    def unassign(self, partitions: Iterable[Partition]) -> None: ...

    def log_range(self, partition: Partition, timeout: float) -> tuple[int, int] | None:
        """The first offset that the log still has and its end, None when they cannot be told. Waits."""
        ...

    def high_watermark(self, partition: Partition) -> int | None:
        """The end of the log as of the last fetch; never asks the broker."""
        ...

    def close(self) -> None:
        """End, and leave the group where the policy says so; may call the listener. Waits."""
        ...


class Crew(Protocol):
    """Those who work on the records. Called from the owning thread; must not block."""

    def begin(self, partition: Partition, epoch: int) -> None: ...
    def deliver(self, partition: Partition, epoch: int, records: Sequence[Record]) -> None: ...

    def drain(self, partition: Partition, epoch: int) -> None:
        """Finish the batch in hand, start nothing new, then report `Drained`."""
        ...

    def abandon(self, partition: Partition, epoch: int) -> None:
        """Stop at once; nothing that is reported for this epoch counts any more."""
        ...


class Mailbox(Protocol):
    """How others speak to the owning thread. `put` from anywhere, `get` from the owning thread only."""

    def put(self, mail: Mail) -> None: ...

    def get(self, timeout: float) -> Mail | None:
        """The next mail, None when none came within `timeout` seconds; 0 does not wait."""
        ...


class Alarm(Protocol):
    """Ends the process when it is not postponed in time: the answer to an owning thread that hangs."""

    def postpone(self, seconds: float) -> None: ...
    def cancel(self) -> None: ...
