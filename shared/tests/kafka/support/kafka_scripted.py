"""A scripted broker, consumer, mailbox and crew: the driver's whole world, without threads and without waiting."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from cairn_shared.errors import Unavailable
from cairn_shared.kafka.mail import Drained, Finished, Mail
from cairn_shared.kafka.ports import RebalanceListener
from cairn_shared.kafka.records import EndOfLog, Fetched, OffsetOutOfRange, Partition, Record

DrainPlan = Literal["finish", "drop", "hang"]


def record(partition: Partition, offset: int, size: int = 1) -> Record:
    return Record(partition.topic, partition.number, offset, b"k", b"v" * size, timestamp_ms=offset)


class VirtualTime:
    """A clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Log:
    """One partition on the broker: records from `first` to `end`, and what is true about them."""

    first: int = 0
    end: int = 0
    committed: int | None = None
    done: set[int] = field(default_factory=set)


class ScriptedBroker:
    """Logs, committed offsets, and which partitions the one consumer under test owns."""

    def __init__(self, partitions: Iterable[Partition]) -> None:
        self.logs = {partition: Log() for partition in partitions}
        self.away = False

    def commit(self, partition: Partition, offset: int) -> None:
        """I2: a commit covers only records whose effects are durable."""
        log = self.logs[partition]
        missing = set(range(log.first, offset)) - log.done
        assert not missing, f"{partition}: offset {offset} committed while {sorted(missing)} are not done"
        assert offset <= log.end, f"{partition}: offset {offset} committed, the log ends at {log.end}"
        log.committed = offset


class ScriptedConsumer:
    """A `GroupConsumer`. Rebalances wait in `rebalances` and are served inside `fetch` and `close`."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.positions: dict[Partition, int] = {}
        self.paused: set[Partition] = set()
        self.rebalances: deque[tuple[str, list[Partition]]] = deque()
        self.commits_fail = False
        self.unanswered: list[tuple[dict[Partition, int], bool]] = []
        self.committed_fails = 0
        self.commit_requests = 0
        self.questions = 0
        self.wedged = False
        self.closed = False
        self.forbid_commits = False
        self.batch = 3
        self.listener: RebalanceListener | None = None

    def subscribe(self, topics: Sequence[str], listener: RebalanceListener) -> None:
        self.listener = listener

    def fetch(self, limit: int, timeout: float) -> list[Fetched]:
        assert self.listener is not None and not self.closed
        self._answer_commits()
        if self.rebalances:
            self._serve(*self.rebalances.popleft())
            return []
        fetched: list[Fetched] = []
        for partition, position in list(self.positions.items()):
            log = self.broker.logs[partition]
            if partition in self.paused or self.wedged:
                continue
            if position > log.end or position < log.first:
                fetched.append(OffsetOutOfRange(partition))
                continue
            end = min(log.end, position + self.batch)
            fetched += [record(partition, offset) for offset in range(position, end)]
            self.positions[partition] = end
            if position == log.end:
                fetched.append(EndOfLog(partition, log.end))
        return fetched

    def _serve(self, kind: str, partitions: list[Partition]) -> None:
        assert self.listener is not None
        if kind == "assign":
            self.listener.on_assign(partitions)
        elif kind == "revoke":
            owned = [p for p in partitions if p in self.positions]
            self.listener.on_revoke(owned)
            assert not set(owned) & self.positions.keys(), "revoked partitions were not let go"
        else:
            owned = [p for p in partitions if p in self.positions]
            self.forbid_commits = True
            self.listener.on_lost(owned)
            self.forbid_commits = False

    def _answer_commits(self) -> None:
        assert self.listener is not None
        for offsets, fails in self.unanswered:
            failures = {}
            for partition, offset in offsets.items():
                if fails or partition not in self.positions:
                    failures[partition] = "ILLEGAL_GENERATION"
                else:
                    self.broker.commit(partition, offset)
            self.listener.on_commit(offsets, failures)
        self.unanswered.clear()

    def pause(self, partitions: Iterable[Partition]) -> None:
        self.paused |= set(partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        self.paused -= set(partitions)

    def commit_later(self, offsets: Mapping[Partition, int]) -> None:
        self._allowed(offsets)
        self.commit_requests += 1
        self.unanswered.append((dict(offsets), self.commits_fail))

    def commit_now(self, offsets: Mapping[Partition, int]) -> dict[Partition, str]:
        self._allowed(offsets)
        if self.commits_fail:
            return dict.fromkeys(offsets, "REQUEST_TIMED_OUT")
        for partition, offset in offsets.items():
            self.broker.commit(partition, offset)
        return {}

    def _allowed(self, offsets: Mapping[Partition, int]) -> None:
        assert not self.forbid_commits, "a commit while partitions are lost"
        assert offsets.keys() <= self.positions.keys(), "a commit of partitions that are not owned"

    def committed(self, partitions: Sequence[Partition], timeout: float) -> dict[Partition, int | None]:
        if self.committed_fails:
            self.committed_fails -= 1
            raise Unavailable("kafka", "COORDINATOR_LOAD_IN_PROGRESS")
        return {partition: self.broker.logs[partition].committed for partition in partitions}

    def assign(self, starts: Mapping[Partition, int | None]) -> None:
        for partition, offset in starts.items():
            assert partition not in self.positions
            self.positions[partition] = self.broker.logs[partition].first if offset is None else offset
            self.paused.add(partition)  # the worst case of confluent-kafka-python #371: a pause outlived its epoch

    def unassign(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self.positions.pop(partition, None)

    def log_range(self, partition: Partition, timeout: float) -> tuple[int, int] | None:
        self.questions += 1
        return None if self.broker.away else (self.broker.logs[partition].first, self.broker.logs[partition].end)

    def high_watermark(self, partition: Partition) -> int | None:
        return None if self.wedged else self.broker.logs[partition].end

    def close(self) -> None:
        while self.rebalances:
            self._serve(*self.rebalances.popleft())
        if self.positions:
            self._serve("revoke", list(self.positions))
        self.closed = True


class ScriptedMailbox:
    """Waiting for mail moves the virtual clock to the end of the wait."""

    def __init__(self, time: VirtualTime) -> None:
        self._time = time
        self.waiting: deque[Mail] = deque()

    def put(self, mail: Mail) -> None:
        self.waiting.append(mail)

    def get(self, timeout: float) -> Mail | None:
        if self.waiting:
            return self.waiting.popleft()
        self._time.seconds += timeout
        return None


class ScriptedCrew:
    """Holds what was delivered until the script finishes it; effects of finished records are durable at once."""

    def __init__(self, broker: ScriptedBroker, mailbox: ScriptedMailbox) -> None:
        self.broker = broker
        self.mailbox = mailbox
        self.hands: dict[tuple[Partition, int], list[Record]] = {}
        self.zombies: dict[tuple[Partition, int], list[Record]] = {}
        self.plan: dict[Partition, DrainPlan] = {}

    def begin(self, partition: Partition, epoch: int) -> None:
        assert all(p != partition for p, _ in self.hands), "two workers on one partition"
        self.hands[partition, epoch] = []

    def deliver(self, partition: Partition, epoch: int, records: Sequence[Record]) -> None:
        self.hands[partition, epoch] += records

    def drain(self, partition: Partition, epoch: int) -> None:
        plan = self.plan.get(partition, "finish")
        if plan == "hang":
            return
        if plan == "finish":
            self.finish(partition, epoch, len(self.hands[partition, epoch]))
        self.mailbox.put(Drained(partition, epoch))

    def abandon(self, partition: Partition, epoch: int) -> None:
        self.zombies[partition, epoch] = self.hands.pop((partition, epoch))

    def finish(self, partition: Partition, epoch: int, count: int) -> None:
        """The first `count` records in hand become durable, and that is reported."""
        hand = self.hands.get((partition, epoch), self.zombies.get((partition, epoch), []))
        batch, hand[:] = hand[:count], hand[count:]
        self.broker.logs[partition].done |= {r.offset for r in batch}
        if batch:
            self.mailbox.put(Finished(partition, epoch, tuple(r.offset for r in batch)))
