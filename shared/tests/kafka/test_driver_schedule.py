"""Any schedule of fetches, finished and failed work, rebalances, commit errors and time: the promises hold."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from kafka_scripted import DrainPlan, ScriptedBroker, ScriptedConsumer, ScriptedCrew, ScriptedMailbox, VirtualTime

from cairn_shared.kafka.driver import Driver
from cairn_shared.kafka.mail import Finished, Held, Stop
from cairn_shared.kafka.observer import EngineObserver
from cairn_shared.kafka.policy import ConsumerPolicy
from cairn_shared.kafka.records import Partition

PARTITIONS = [Partition("t", 0), Partition("t", 1), Partition("u", 0)]
POLICY = ConsumerPolicy(buffer_records=6, drain_timeout=5.0, commit_interval=1.0, expired_offset="earliest")
some_partitions = st.sets(st.sampled_from(PARTITIONS), min_size=1)


class Schedule(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.time = VirtualTime()
        self.broker = ScriptedBroker(PARTITIONS)
        self.consumer = ScriptedConsumer(self.broker)
        self.mailbox = ScriptedMailbox(self.time)
        self.crew = ScriptedCrew(self.broker, self.mailbox)
        self.driver = Driver(
            self.consumer,
            ["t", "u"],
            self.crew,
            self.mailbox,
            policy=POLICY,
            monotonic=self.time,
            observer=EngineObserver(),
            on_stuck=lambda _: None,
        )
        self.driver.start()

    @rule(partition=st.sampled_from(PARTITIONS), count=st.integers(1, 8))
    def produce(self, partition: Partition, count: int) -> None:
        self.broker.logs[partition].end += count

    @rule()
    def step(self) -> None:
        self.driver.step()

    @rule(partition=st.sampled_from(PARTITIONS), count=st.integers(1, 8))
    def finish(self, partition: Partition, count: int) -> None:
        for owner, epoch in list(self.crew.hands):
            if owner == partition:
                self.crew.finish(partition, epoch, count)

    @rule(count=st.integers(1, 8))
    def zombie_finishes(self, count: int) -> None:
        for partition, epoch in self.crew.zombies:
            self.crew.finish(partition, epoch, count)

    @rule(partition=st.sampled_from(PARTITIONS), held=st.booleans())
    def back_off(self, partition: Partition, held: bool) -> None:
        for owner, epoch in self.crew.hands:
            if owner == partition:
                self.mailbox.put(Held(partition, epoch, held))

    @rule(partitions=some_partitions)
    def assign(self, partitions: set[Partition]) -> None:
        queued = {p for _, waiting in self.consumer.rebalances for p in waiting}
        if new := sorted(partitions - self.consumer.positions.keys() - queued):
            self.consumer.rebalances.append(("assign", new))

    @rule(partitions=some_partitions, plan=st.sampled_from(["finish", "drop", "hang"]))
    def revoke(self, partitions: set[Partition], plan: DrainPlan) -> None:
        self._serve_rebalances()
        owned = partitions & self.consumer.positions.keys()
        self.crew.plan = dict.fromkeys(partitions, plan)
        self.consumer.rebalances.append(("revoke", sorted(partitions)))
        fetched = {partition: self.consumer.positions[partition] for partition in owned}
        self.driver.step()
        if plan == "finish" and not self.consumer.commits_fail:
            assert {p: self.broker.logs[p].committed for p in owned} == fetched, "drained, but not committed"

    @rule(partitions=some_partitions)
    def suspended_and_then_revoked(self, partitions: set[Partition]) -> None:
        """SIGSTOP for longer than a membership lasts: the client may not know that the partitions are lost."""
        self._serve_rebalances()
        self.crew.plan = dict.fromkeys(partitions, "finish")
        self.consumer.rebalances.append(("revoke", sorted(partitions)))
        self.consumer.forbid_commits = True
        self.time.seconds += POLICY.session_timeout + POLICY.drain_timeout + 1
        self.driver._take_in(self.consumer.fetch(500, 0))
        self.consumer.forbid_commits = False

    def _serve_rebalances(self) -> None:
        while self.consumer.rebalances:
            self.driver.step()
        self.driver.step()

    @rule(partitions=some_partitions)
    def lose(self, partitions: set[Partition]) -> None:
        self.consumer.rebalances.append(("lost", sorted(partitions)))
        self.driver.step()

    @rule(partition=st.sampled_from(PARTITIONS), count=st.integers(1, 8))
    def another_member_works(self, partition: Partition, count: int) -> None:
        """Whoever owns what we do not own goes on from the committed offset."""
        log = self.broker.logs[partition]
        if partition not in self.consumer.positions:
            start = log.committed if log.committed is not None else log.first
            end = min(log.end, start + count)
            log.done |= set(range(start, end))
            self.broker.commit(partition, end)

    @rule(partition=st.sampled_from(PARTITIONS))
    def log_is_replaced(self, partition: Partition) -> None:
        """A broker that forgets everything comes back with an empty log of the same name."""
        self._serve_rebalances()
        self.driver._pause_and_resume()
        log = self.broker.logs[partition]
        if self.consumer.positions.get(partition, 0) == 0 or partition in self.consumer.paused:
            return
        [(epoch, hand)] = [(e, list(hand)) for (p, e), hand in self.crew.hands.items() if p == partition]
        self.consumer.unanswered.clear()
        self.driver.ownership.forget_requests()
        log.first, log.end, log.committed, log.done = 0, 0, None, set()
        self.driver._take_in(self.consumer.fetch(500, 0))
        assert self.driver.ownership.epoch(partition) != epoch, "the log is another one, and nobody noticed"
        self.crew.zombies.clear()
        log.end = 3
        self.driver.step()
        self.mailbox.put(Finished(partition, epoch, tuple(r.offset for r in hand)))

    @rule(fail=st.booleans())
    def commits(self, fail: bool) -> None:
        self.consumer.commits_fail = fail

    @rule(count=st.integers(0, 3))
    def coordinator_is_loading(self, count: int) -> None:
        self.consumer.committed_fails = count

    @rule(seconds=st.floats(0, 8))
    def time_passes(self, seconds: float) -> None:
        self.time.seconds += seconds

    @invariant()
    def ownership_and_assignment_agree(self) -> None:
        if hasattr(self, "driver"):
            owned = set(self.driver.ownership.partitions)
            assert owned == self.consumer.positions.keys()
            assert owned == {partition for partition, _ in self.crew.hands}

    @invariant()
    def a_full_buffer_is_bounded(self) -> None:
        if hasattr(self, "driver"):
            for hand in self.crew.hands.values():
                assert len(hand) < POLICY.buffer_records + self.consumer.batch

    def teardown(self) -> None:
        """Left alone, everything gets done; then the end comes, whatever waits in the queue, and nothing is open."""
        if not hasattr(self, "driver"):
            return
        self.consumer.commits_fail = False
        self.consumer.committed_fails = 0
        self.crew.plan = {}
        for _ in range(200):
            for partition, epoch in list(self.crew.hands):
                self.mailbox.put(Held(partition, epoch, held=False))
                self.crew.finish(partition, epoch, 100)
            self.time.seconds += 1.1
            self.driver.step()
        for partition in self.consumer.positions:
            log = self.broker.logs[partition]
            assert log.done >= set(range(log.first, log.end))
            assert log.committed == log.end, f"{partition}: lag that never goes"
        for log in self.broker.logs.values():
            log.end += 2
        self.driver.step()
        self.consumer.rebalances.extend([("revoke", [PARTITIONS[0]]), ("assign", [PARTITIONS[0]])])
        self.mailbox.put(Stop())
        self.driver.step()
        assert self.driver.stopping
        self.driver.shut_down()
        assert self.consumer.closed
        assert not self.driver.ownership.partitions


TestSchedule = Schedule.TestCase
TestSchedule.settings = settings(max_examples=200, stateful_step_count=30, deadline=None, print_blob=True)
