"""What the thread that owns the consumer does, one step at a time.

Every call to the consumer is made here, so the client never sees two threads, and everything that changes the
state of a partition (fetches, mail from the workers, rebalances) happens one after another. Rebalances arrive
inside `fetch`; while one drains, the workers go on and report by mail, which is read right there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cairn_shared.errors import TransientError
from cairn_shared.kafka.errors import EngineFailed, OffsetExpired
from cairn_shared.kafka.mail import Alive, Broke, Drained, Finished, Held, Mail, Stop
from cairn_shared.kafka.observer import EngineObserver
from cairn_shared.kafka.ownership import Ownership, PartitionStatus
from cairn_shared.kafka.policy import ConsumerPolicy
from cairn_shared.kafka.ports import Crew, GroupConsumer, Mailbox
from cairn_shared.kafka.records import EndOfLog, Fetched, FetchProblem, OffsetOutOfRange, Partition, Record
from cairn_shared.logging import get_logger

log = get_logger(__name__)

STATUS_INTERVAL = 1.0
COMMIT_ANSWER_TIMEOUT = 30.0


class Driver:
    """Owns the consumer. The engine calls `start`, `step` until `stopping`, and `shut_down`, all on one thread.

    `step` raises what makes going on impossible.
    """

    def __init__(
        self,
        consumer: GroupConsumer,
        topics: Sequence[str],
        crew: Crew,
        mailbox: Mailbox,
        *,
        policy: ConsumerPolicy,
        monotonic: Callable[[], float],
        observer: EngineObserver,
        on_stuck: Callable[[list[PartitionStatus]], None],
    ) -> None:
        self._consumer = consumer
        self._topics = topics
        self._crew = crew
        self._mailbox = mailbox
        self._policy = policy
        self._now = monotonic
        self._observer = observer
        self._on_stuck = on_stuck
        self._ownership = Ownership(policy)
        self._drained: set[tuple[Partition, int]] = set()
        self._stopping = False
        self._last_fetch = monotonic()
        self._next_status = 0.0
        self._next_question = monotonic() + policy.stuck_after / 4
        self._commit_asked: float | None = None
        self._problems: dict[str, float] = {}

    @property
    def ownership(self) -> Ownership:
        """The state of the owned partitions; read it on the owning thread only."""
        return self._ownership

    @property
    def stopping(self) -> bool:
        """A `Stop` was read."""
        return self._stopping

    def start(self) -> None:
        """Join the group."""
        self._consumer.subscribe(self._topics, self)
        self._last_fetch = self._now()

    def step(self) -> None:
        """Read the mail, pause and resume, commit what is due, fetch."""
        while (mail := self._mailbox.get(0)) is not None:
            self._read(mail)
        if self._stopping:
            return
        self._pause_and_resume()
        self._commit_due()
        fetched = self._consumer.fetch(self._policy.fetch_records, self._policy.poll_timeout)
        self._last_fetch = self._now()
        self._take_in(fetched)
        self._look_around()

    def shut_down(self) -> None:
        """Drain and commit everything that is owned, then leave the group."""
        self._stopping = True
        try:
            self._hand_over(self._ownership.partitions)
        finally:
            # Closing serves rebalances that still wait in the queue: every one is answered by the callbacks below.
            self._consumer.close()

    # Rebalances, called by the consumer inside fetch and close.

    def on_assign(self, partitions: Sequence[Partition]) -> None:
        """Start each partition at its committed offset, or at the beginning when the group has none."""
        if self._stopping or not partitions:
            self._consumer.assign({})
            return
        committed = self._committed(partitions)
        self._consumer.assign(committed)
        for partition in partitions:
            start = committed[partition]
            epoch = self._ownership.take(partition, start, self._now(), committed=start)
            self._crew.begin(partition, epoch)
        log.info("partitions assigned", partitions={str(p): committed[p] for p in partitions})
        self._observer.assigned(partitions)
        self._last_fetch = self._now()

    def on_revoke(self, partitions: Sequence[Partition]) -> None:
        """Finish what is in hand for these partitions, commit, let go."""
        gap = self._now() - self._last_fetch
        if gap > self._policy.session_timeout + self._policy.drain_timeout:
            # This process was suspended for longer than its membership lasts. The client may have missed that the
            # partitions are lost (librdkafka #5604), but somebody else owns them now.
            log.warning("revoked after a gap: taken as lost", gap_seconds=round(gap, 1))
            self.on_lost(partitions)
            return
        self._observer.revoking(partitions)
        self._hand_over(partitions)
        self._consumer.unassign(partitions)
        log.info("partitions revoked", partitions=[str(p) for p in partitions])
        self._last_fetch = self._now()

    def on_lost(self, partitions: Sequence[Partition]) -> None:
        """Others own these partitions already: drop everything, commit nothing."""
        self._let_go(partitions)
        self._consumer.unassign(partitions)
        log.warning("partitions lost", partitions=[str(p) for p in partitions])
        self._observer.lost(partitions)

    def on_commit(self, offsets: Mapping[Partition, int], failures: Mapping[Partition, str]) -> None:
        """Note the answer to `commit_later`."""
        self._commit_asked = None
        self._note_commit(offsets, failures)

    # Steps.

    def _read(self, mail: Mail) -> None:
        match mail:
            case Finished(partition, epoch, offsets):
                self._ownership.finished(partition, epoch, offsets, self._now())
            case Held(partition, epoch, held):
                self._ownership.hold(partition, epoch, held=held)
            case Alive(partition, epoch):
                self._ownership.alive(partition, epoch, self._now())
            case Drained(partition, epoch):
                self._drained.add((partition, epoch))
            case Broke(partition, error):
                raise EngineFailed(f"{partition}: the handler failed with {type(error).__name__}") from error
            case Stop():
                self._stopping = True

    def _pause_and_resume(self) -> None:
        pause, resume = self._ownership.pausing()
        if pause:
            self._consumer.pause(pause)
        if resume:
            self._consumer.resume(resume)

    def _commit_due(self) -> None:
        now = self._now()
        if self._commit_asked is not None and now - self._commit_asked > COMMIT_ANSWER_TIMEOUT:
            self._commit_asked = None
            self._ownership.forget_requests()
        if due := self._ownership.due_commits(now):
            self._commit_asked = now
            self._observer.committing(due)
            self._consumer.commit_later(due)

    def _take_in(self, fetched: Sequence[Fetched]) -> None:
        deliveries: dict[tuple[Partition, int], list[Record]] = {}
        for item in fetched:
            match item:
                case Record():
                    epoch = self._note_record(item)
                    if epoch is not None:
                        deliveries.setdefault((item.home, epoch), []).append(item)
                case EndOfLog(partition, offset):
                    self._ownership.reached_end(partition, offset)
                case OffsetOutOfRange(partition):
                    self._out_of_range(partition)
                case FetchProblem():
                    self._report(item)
        for (partition, epoch), records in deliveries.items():
            self._crew.deliver(partition, epoch, records)

    def _note_record(self, record: Record) -> int | None:
        try:
            return self._ownership.fetched(record, self._now())
        except ValueError:
            self._begin_anew(record.home, record.offset, "offsets went backwards")
            return self._ownership.fetched(record, self._now())

    def _out_of_range(self, partition: Partition) -> None:
        """The position is not in the log: decide between records that expired and a log that is another one."""
        if self._ownership.epoch(partition) is None:
            return
        position = next(s.frontier for s in self._ownership.status(self._now()) if s.partition == partition)
        found = self._consumer.log_range(partition, timeout=5.0)
        first = found and found[0]
        if position is not None and first is not None and position < first:
            unread = first - position
            message = f"{partition}: offset {position} expired, the log begins at {first}, {unread} were never read"
            if self._policy.expired_offset == "stop":
                raise OffsetExpired(f"{message}; set CONSUMER_EXPIRED_OFFSET=earliest to go on from there")
            log.error("records expired unread", detail=message)
        self._consumer.unassign([partition])
        self._consumer.assign({partition: None})
        self._begin_anew(partition, None, "the offset does not exist in the log")

    def _begin_anew(self, partition: Partition, start: int | None, reason: str) -> None:
        log.error("beginning a partition anew", partition=str(partition), reason=reason)
        self._let_go([partition])
        self._crew.begin(partition, self._ownership.take(partition, start, self._now()))
        self._observer.began_anew(partition, reason)

    def _report(self, problem: FetchProblem) -> None:
        if problem.fatal:
            raise EngineFailed(f"kafka: {problem.name}: {problem.detail}")
        now = self._now()
        if now - self._problems.get(problem.name, float("-inf")) > 10.0:
            self._problems[problem.name] = now
            log.warning("kafka", error=problem.name, detail=problem.detail)

    def _look_around(self) -> None:
        now = self._now()
        if now < self._next_status:
            return
        self._next_status = now + STATUS_INTERVAL
        for partition in self._ownership.partitions:
            high = self._consumer.high_watermark(partition)
            if high is not None:
                self._ownership.high_watermark(partition, high)
        self._ask_about_the_quiet(now)
        self._ownership.rest(now)
        statuses = self._ownership.status(now)
        self._observer.polled(statuses)
        if stuck := self._ownership.stuck(now):
            self._on_stuck(stuck)

    def _ask_about_the_quiet(self, now: float) -> None:
        """Now and then ask the broker for the end of logs that seem to be read: a fetcher that stands still says so."""
        if now < self._next_question:
            return
        self._next_question = now + self._policy.stuck_after / 4
        for partition in self._ownership.quiet():
            found = self._consumer.log_range(partition, timeout=1.0)
            if found is None:  # the broker is away: each more would wait as long
                return
            self._ownership.log_range(partition, *found)

    # Handing over.

    def _hand_over(self, partitions: Sequence[Partition]) -> None:
        """Drain first, fence second: what is finished within the budget is committed, the rest is done again."""
        waiting = {(p, epoch) for p in partitions if (epoch := self._ownership.epoch(p)) is not None}
        if not waiting:  # closing hands over once more what was handed over before it
            return
        self._observer.draining(partitions)
        for partition, epoch in waiting:
            self._crew.drain(partition, epoch)
        deadline = self._now() + self._policy.drain_timeout
        while waiting - self._drained and (left := deadline - self._now()) > 0:
            mail = self._mailbox.get(left)
            if mail is not None:
                self._read(mail)
        late = sorted(p for p, _ in waiting - self._drained)
        if late:
            log.warning("drain timed out", partitions=[str(p) for p in late], seconds=self._policy.drain_timeout)
        self._observer.drained(partitions, timed_out=late)
        self._commit_final(partitions)
        self._let_go(partitions)

    def _commit_final(self, partitions: Sequence[Partition]) -> None:
        """Commit the frontiers and wait. What cannot be committed is done again by the next owner."""
        deadline = self._now() + self._policy.commit_budget
        for attempt in range(self._policy.commit_attempts):
            offsets = self._ownership.uncommitted(partitions)
            if not offsets:
                return
            if self._now() > deadline:
                break
            if attempt:
                self._pause_between_commits()
            self._observer.committing(offsets)
            self._note_commit(offsets, self._consumer.commit_now(offsets))
        if offsets := self._ownership.uncommitted(partitions):
            log.warning("left uncommitted", partitions={str(p): offset for p, offset in offsets.items()})

    def _pause_between_commits(self) -> None:
        deadline = self._now() + self._policy.commit_pause
        while (left := deadline - self._now()) > 0:
            mail = self._mailbox.get(left)
            if mail is not None:
                self._read(mail)

    def _note_commit(self, offsets: Mapping[Partition, int], failures: Mapping[Partition, str]) -> None:
        for partition, offset in offsets.items():
            self._ownership.commit_answered(partition, offset, ok=partition not in failures)
        if failures:
            log.warning("commit failed", failures={str(p): name for p, name in failures.items()})
            self._observer.commit_failed(failures)
        if done := {p: offset for p, offset in offsets.items() if p not in failures}:
            self._observer.committed(done)

    def _let_go(self, partitions: Sequence[Partition]) -> None:
        for partition in partitions:
            epoch = self._ownership.epoch(partition)
            if epoch is not None:
                self._drained.discard((partition, epoch))
                self._crew.abandon(partition, epoch)
        self._ownership.release(partitions)
        self._observer.released(partitions)

    def _committed(self, partitions: Sequence[Partition]) -> dict[Partition, int | None]:
        deadline = self._now() + self._policy.assign_timeout
        while True:
            try:
                return self._consumer.committed(partitions, timeout=5.0)
            except TransientError as exc:
                if self._now() > deadline:
                    raise EngineFailed("the committed offsets cannot be read") from exc
                log.warning("waiting for committed offsets", error=exc.detail)
                self._pause_between_commits()
