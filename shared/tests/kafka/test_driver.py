"""Single races of the driver, each named after what went wrong elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from kafka_scripted import ScriptedBroker, ScriptedConsumer, ScriptedCrew, ScriptedMailbox, VirtualTime, record

from cairn_shared.kafka.driver import Driver
from cairn_shared.kafka.errors import EngineFailed, OffsetExpired
from cairn_shared.kafka.mail import Alive, Broke, Drained, Finished, Held, Stop
from cairn_shared.kafka.observer import EngineObserver
from cairn_shared.kafka.ownership import PartitionStatus
from cairn_shared.kafka.policy import ConsumerPolicy, ExpiredOffset
from cairn_shared.kafka.records import FetchProblem, Partition

A, B = Partition("t", 0), Partition("t", 1)


class Drains(EngineObserver):
    """When drains begin and end, and what was committed then."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.seen: list[tuple[str, list[Partition], int | None]] = []

    def draining(self, partitions: Sequence[Partition]) -> None:
        self.seen.append(("begins", list(partitions), self.broker.logs[A].committed))

    def drained(self, partitions: Sequence[Partition], *, timed_out: Sequence[Partition]) -> None:
        self.seen.append(("ends", list(partitions), self.broker.logs[A].committed))


class World:
    def __init__(self, expired_offset: ExpiredOffset = "stop") -> None:
        self.time = VirtualTime()
        self.broker = ScriptedBroker([A, B])
        self.consumer = ScriptedConsumer(self.broker)
        self.mailbox = ScriptedMailbox(self.time)
        self.crew = ScriptedCrew(self.broker, self.mailbox)
        self.stuck: list[PartitionStatus] = []
        self.drains = Drains(self.broker)
        self.policy = ConsumerPolicy(buffer_records=10, expired_offset=expired_offset, stuck_after=60)
        self.driver = Driver(
            self.consumer,
            ["t"],
            self.crew,
            self.mailbox,
            policy=self.policy,
            monotonic=self.time,
            observer=self.drains,
            on_stuck=self.stuck.extend,
        )
        self.driver.start()

    def assign(self, *partitions: Partition) -> None:
        self.consumer.rebalances.append(("assign", list(partitions)))
        self.driver.step()

    def revoke(self, *partitions: Partition) -> None:
        self.consumer.rebalances.append(("revoke", list(partitions)))
        self.driver.step()

    def produce(self, partition: Partition, count: int) -> None:
        self.broker.logs[partition].end += count

    def epoch(self, partition: Partition) -> int:
        epoch = self.driver.ownership.epoch(partition)
        assert epoch is not None
        return epoch

    def hand(self, partition: Partition) -> list[int]:
        return [r.offset for r in self.crew.hands[partition, self.epoch(partition)]]

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.time.seconds += 1.1
            self.driver.step()


def test_a_partition_without_a_committed_offset_begins_at_the_beginning_and_gets_one() -> None:
    world = World()
    world.broker.logs[A].first = world.broker.logs[A].end = 7
    world.assign(A)
    world.steps(3)
    assert world.broker.logs[A].committed == 7


def test_a_committed_offset_is_where_the_next_owner_begins() -> None:
    world = World()
    world.produce(A, 9)
    world.broker.logs[A].done = set(range(6))
    world.broker.logs[A].committed = 6
    world.assign(A)
    world.steps(2)
    assert world.hand(A) == [6, 7, 8]


def test_offsets_finished_out_of_order_wait_for_the_lowest() -> None:
    world = World()
    world.produce(A, 3)
    world.assign(A)
    world.steps(2)
    world.broker.logs[A].done = {1, 2}
    world.mailbox.put(Finished(A, world.epoch(A), (1, 2)))
    world.steps(3)
    assert world.broker.logs[A].committed in (None, 0)
    world.broker.logs[A].done = {0, 1, 2}
    world.mailbox.put(Finished(A, world.epoch(A), (0,)))
    world.steps(3)
    assert world.broker.logs[A].committed == 3


def test_revoking_one_partition_leaves_the_others_alone() -> None:
    world = World()
    world.produce(A, 3)
    world.produce(B, 3)
    world.assign(A, B)
    world.steps(2)
    kept = world.epoch(B)
    world.revoke(A)
    assert world.broker.logs[A].committed == 3
    assert world.epoch(B) == kept
    assert world.hand(B) == [0, 1, 2]


def test_a_drain_that_takes_too_long_commits_only_what_is_finished() -> None:
    world = World()
    world.produce(A, 3)
    world.assign(A)
    world.steps(2)
    world.crew.finish(A, world.epoch(A), 1)
    world.crew.plan[A] = "hang"
    before = world.time()
    world.revoke(A)
    assert world.broker.logs[A].committed == 1
    assert world.time() - before == pytest.approx(world.policy.drain_timeout, abs=1)


def test_lost_partitions_are_let_go_without_a_drain_or_a_commit() -> None:
    world = World()
    world.produce(A, 3)
    world.assign(A)
    world.steps(2)
    world.crew.finish(A, world.epoch(A), 2)
    world.consumer.rebalances.append(("lost", [A]))
    world.driver.step()
    assert not world.driver.ownership.partitions
    assert world.drains.seen == []
    assert world.broker.logs[A].committed in (None, 0)


def test_work_of_an_older_epoch_moves_no_offset_even_if_the_offsets_look_alike() -> None:
    world = World()
    world.produce(A, 3)
    world.assign(A)
    world.steps(2)
    old = world.epoch(A)
    log = world.broker.logs[A]
    log.first, log.end, log.committed, log.done = 0, 0, None, set()
    world.steps(1)
    world.produce(A, 3)
    world.steps(2)
    assert world.epoch(A) != old
    assert world.hand(A) == [0, 1, 2]
    world.mailbox.put(Finished(A, old, (0, 1, 2)))
    world.mailbox.put(Held(A, old, held=True))
    world.steps(2)
    assert log.committed in (None, 0)
    assert A not in world.consumer.paused


def test_offsets_that_go_backwards_begin_a_new_epoch() -> None:
    world = World()
    world.produce(A, 3)
    world.assign(A)
    world.steps(2)
    old = world.epoch(A)
    world.driver._take_in([record(A, 1)])
    assert world.epoch(A) != old
    assert world.hand(A) == [1]


def test_expired_records_stop_the_consumer_and_say_which() -> None:
    world = World()
    log = world.broker.logs[A]
    log.first, log.end, log.committed, log.done = 0, 9, 2, {0, 1}
    world.assign(A)
    log.first = 5
    with pytest.raises(OffsetExpired, match=r"t\[0\]: offset 2 expired, the log begins at 5, 3 were never read"):
        world.steps(2)


def test_expired_records_are_passed_over_when_an_operator_says_so() -> None:
    world = World(expired_offset="earliest")
    log = world.broker.logs[A]
    log.first, log.end, log.committed, log.done = 0, 7, 2, {0, 1}
    world.assign(A)
    log.first = 5
    world.steps(3)
    assert world.hand(A) == [5, 6]


def test_a_pause_that_outlived_its_epoch_is_lifted() -> None:
    world = World()
    world.produce(A, 2)
    world.assign(A)
    world.mailbox.put(Held(A, world.epoch(A), held=True))
    world.steps(2)
    assert A in world.consumer.paused
    world.revoke(A)
    world.assign(A)
    world.steps(1)
    assert A not in world.consumer.paused


def test_fetching_pauses_at_the_cap_and_resumes_at_four_fifths_of_it() -> None:
    world = World()
    world.produce(A, 100)
    world.assign(A)
    world.steps(6)
    assert A in world.consumer.paused
    in_hand = len(world.hand(A))
    assert 10 <= in_hand < 10 + world.consumer.batch
    world.crew.finish(A, world.epoch(A), in_hand - 8)
    world.steps(1)
    assert A in world.consumer.paused
    world.crew.finish(A, world.epoch(A), 1)
    world.steps(1)
    assert A not in world.consumer.paused


def test_large_records_pause_fetching_too() -> None:
    world = World()
    world.assign(A)
    world.driver._take_in([record(A, 0, size=17 * 1024 * 1024)])
    world.driver.step()
    assert A in world.consumer.paused


def test_one_partition_that_backs_off_does_not_pause_another() -> None:
    world = World()
    world.assign(A, B)
    world.mailbox.put(Held(A, world.epoch(A), held=True))
    world.steps(1)
    assert world.consumer.paused == {A}


def test_a_failed_commit_is_repeated() -> None:
    world = World()
    world.produce(A, 1)
    world.assign(A)
    world.steps(2)
    world.consumer.commits_fail = True
    world.crew.finish(A, world.epoch(A), 1)
    world.steps(3)
    assert world.broker.logs[A].committed in (None, 0)
    world.consumer.commits_fail = False
    world.steps(3)
    assert world.broker.logs[A].committed == 1


def test_a_commit_that_fails_while_revoking_does_not_block_the_rebalance() -> None:
    world = World()
    world.produce(A, 1)
    world.assign(A)
    world.steps(2)
    world.consumer.commits_fail = True
    world.revoke(A)
    assert not world.driver.ownership.partitions
    world.consumer.commits_fail = False
    world.assign(A)
    world.steps(2)
    assert world.hand(A) == [0]


def test_a_commit_without_an_answer_is_asked_for_again() -> None:
    world = World()
    world.produce(A, 1)
    world.assign(A)
    world.steps(2)
    world.crew.finish(A, world.epoch(A), 1)
    world.time.seconds += 2
    world.driver._read(world.mailbox.waiting.popleft())
    world.driver._commit_due()
    world.consumer.unanswered.clear()
    world.time.seconds += 31
    world.steps(3)
    assert world.broker.logs[A].committed == 1


def test_commits_come_about_once_a_second() -> None:
    world = World()
    world.assign(A)
    for _ in range(100):
        world.produce(A, 1)
        world.crew.finish(A, world.epoch(A), 10)
        world.time.seconds += 0.05
        world.driver.step()
    assert 4 <= world.consumer.commit_requests <= 6


def test_offsets_are_read_again_while_the_coordinator_loads() -> None:
    world = World()
    world.consumer.committed_fails = 5
    world.assign(A)
    assert world.driver.ownership.partitions == [A]


def test_offsets_that_cannot_be_read_end_the_process_rather_than_guess() -> None:
    world = World()
    world.consumer.committed_fails = 10_000
    with pytest.raises(EngineFailed):
        world.assign(A)


def test_a_partition_with_lag_that_shows_no_sign_of_life_is_stuck() -> None:
    world = World()
    world.produce(A, 3)
    world.assign(A)
    world.steps(40)
    assert not world.stuck
    world.steps(20)
    assert [status.partition for status in world.stuck] == [A, *[A] * (len(world.stuck) - 1)]


def test_backing_off_is_a_sign_of_life() -> None:
    world = World()
    world.produce(A, 3)
    world.assign(A)
    for _ in range(10):
        world.steps(20)
        world.mailbox.put(Alive(A, world.epoch(A)))
    assert not world.stuck


def test_an_idle_partition_is_not_stuck() -> None:
    world = World()
    world.assign(A)
    world.steps(100)
    assert not world.stuck


@pytest.mark.parametrize("committed", [None, 3])
def test_a_fetcher_that_stands_still_is_found_out_by_asking_the_broker(committed: int | None) -> None:
    """Nothing is fetched, so no fetch says that there is more: at first, or after all was read."""
    world = World()
    world.produce(A, 3)
    log = world.broker.logs[A]
    log.committed, log.done = committed, set(range(committed or 0))
    world.consumer.wedged = committed is None
    world.assign(A, B)
    world.steps(5)
    world.consumer.wedged = True
    world.produce(A, 1)
    world.steps(50)
    assert not world.stuck
    world.steps(20)
    assert {status.partition for status in world.stuck} == {A}


def test_what_comes_after_a_long_rest_has_time_to_be_done() -> None:
    """The client may know of a record before it hands it over."""
    world = World()
    world.assign(A)
    world.steps(100)
    world.produce(A, 1)
    world.consumer.batch = 0
    world.steps(1)
    status = world.driver.ownership.status(world.time())[0]
    assert (status.lag, status.idle_for < 2) == (1, True)
    world.steps(40)
    assert not world.stuck


def test_a_broker_that_is_away_is_asked_about_one_partition_now_and_then() -> None:
    world = World()
    world.broker.away = True
    world.assign(A, B)
    world.steps(100)
    assert world.consumer.questions == 7, "every 15 of 110 s"


def test_a_handler_that_breaks_ends_the_consumer() -> None:
    world = World()
    world.assign(A)
    world.mailbox.put(Broke(A, KeyError("x")))
    with pytest.raises(EngineFailed, match=r"t\[0\]: the handler failed with KeyError"):
        world.driver.step()


def test_a_fatal_error_of_the_client_ends_the_consumer() -> None:
    with pytest.raises(EngineFailed, match="FENCED_INSTANCE_ID"):
        World().driver._take_in([FetchProblem("FENCED_INSTANCE_ID", "fenced", fatal=True)])


def test_an_unknown_topic_is_waited_for() -> None:
    world = World()
    world.driver._take_in([FetchProblem("UNKNOWN_TOPIC_OR_PART", "no such topic")])
    world.driver.step()


def test_stopping_drains_commits_and_answers_rebalances_that_still_wait() -> None:
    world = World()
    world.produce(A, 3)
    world.assign(A)
    world.steps(2)
    world.consumer.rebalances.extend([("revoke", [A]), ("assign", [B]), ("lost", [B])])
    world.mailbox.put(Stop())
    world.driver.step()
    world.driver.shut_down()
    assert world.consumer.closed
    assert world.broker.logs[A].committed == 3


@pytest.mark.parametrize("how", ["revoke", "stop"])
def test_a_drain_is_announced_before_it_begins_and_after_it_ended_however_it_came(how: str) -> None:
    world = World()
    world.broker.logs[A].committed = 0
    world.produce(A, 3)
    world.assign(A)
    world.steps(1)
    if how == "revoke":
        world.revoke(A)
    world.driver.shut_down()
    assert world.drains.seen == [("begins", [A], 0), ("ends", [A], 0)], "and the commit follows"
    assert world.broker.logs[A].committed == 3


def test_a_stop_during_a_drain_is_not_forgotten() -> None:
    world = World()
    world.assign(A)
    world.crew.plan[A] = "hang"
    world.consumer.rebalances.append(("revoke", [A]))
    world.mailbox.put(Stop())
    world.mailbox.put(Drained(A, world.epoch(A)))
    world.driver._take_in(world.consumer.fetch(1, 0))
    assert world.driver.stopping
