"""Batches, retries and drains of one partition, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence

import pytest
from kafka_scripted import record
from kafka_virtual_loop import LoopClock, run_virtual

from cairn_shared.errors import TransientError, Unavailable
from cairn_shared.kafka.errors import ConsumptionHalted
from cairn_shared.kafka.mail import Alive, Broke, Drained, Finished, Held, Mail
from cairn_shared.kafka.observer import EngineObserver
from cairn_shared.kafka.policy import ConsumerPolicy
from cairn_shared.kafka.progress import still_working
from cairn_shared.kafka.records import Partition, Record
from cairn_shared.kafka.workers import Workers
from cairn_shared.retry import Backoff

A = Partition("t", 0)
POLICY = ConsumerPolicy(batch_records=10, batch_wait=0.2, backoff=Backoff(base=1.0, limit=8.0))
Behave = Callable[[Sequence[Record]], Awaitable[None]]


async def at_once(_: Sequence[Record]) -> None:
    return None


class Bench:
    """One worker and what it said and did, with the times."""

    def __init__(self, behave: Behave = at_once) -> None:
        self.behave = behave
        self.mail: list[Mail] = []
        self.batches: list[tuple[float, list[int]]] = []
        self.running = 0
        self.clock = LoopClock()
        self.workers = Workers(
            self, policy=POLICY, clock=self.clock, report=self.mail.append, observer=EngineObserver()
        )
        self.workers.begin(A, 1)

    async def handle(self, records: Sequence[Record]) -> None:
        assert self.running == 0, "two batches of one partition at once"
        self.running += 1
        self.batches.append((round(self.clock.monotonic(), 3), [r.offset for r in records]))
        try:
            await self.behave(records)
        finally:
            self.running -= 1

    def deliver(self, first: int, count: int) -> None:
        self.workers.deliver(A, 1, [record(A, offset) for offset in range(first, first + count)])

    def finished(self) -> list[int]:
        return [offset for mail in self.mail if isinstance(mail, Finished) for offset in mail.offsets]

    def is_drained(self) -> bool:
        return Drained(A, 1) in self.mail


def test_a_full_batch_goes_at_once_and_the_rest_after_the_wait() -> None:
    async def story() -> None:
        bench = Bench()
        bench.deliver(0, 13)
        await asyncio.sleep(1)
        assert bench.batches == [(0.0, list(range(10))), (0.2, [10, 11, 12])]
        assert bench.finished() == list(range(13))
        await bench.workers.close()

    run_virtual(story())


def test_the_wait_counts_from_the_first_record() -> None:
    async def story() -> None:
        bench = Bench()
        for offset in range(4):
            bench.deliver(offset, 1)
            await asyncio.sleep(0.09)
        await asyncio.sleep(1)
        assert bench.batches == [(0.2, [0, 1, 2]), (0.47, [3])]
        await bench.workers.close()

    run_virtual(story())


def test_a_transient_error_repeats_the_same_batch_with_growing_pauses_until_it_works() -> None:
    failures = 6

    async def flaky(_: Sequence[Record]) -> None:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise Unavailable("postgres")

    async def story() -> None:
        bench = Bench(flaky)
        bench.deliver(0, 10)
        await asyncio.sleep(60)
        assert [offsets for _, offsets in bench.batches] == [list(range(10))] * 7
        times = [at for at, _ in bench.batches]
        pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
        for pause, ceiling in zip(pauses, (1, 2, 4, 8, 8, 8), strict=True):
            assert ceiling / 2 <= pause <= ceiling
        held = [mail.held for mail in bench.mail if isinstance(mail, Held)]
        assert held == [True] * 6 + [False]
        assert bench.mail.index(Finished(A, 1, tuple(range(10)))) > bench.mail.index(Held(A, 1, True))
        await bench.workers.close()

    run_virtual(story())


def test_retry_after_is_honoured() -> None:
    answers = [TransientError("429", retry_after=30.0), None]

    async def throttled(_: Sequence[Record]) -> None:
        if answer := answers.pop(0):
            raise answer

    async def story() -> None:
        bench = Bench(throttled)
        bench.deliver(0, 10)
        await asyncio.sleep(60)
        assert [at for at, _ in bench.batches] == [0.0, 30.0]
        assert sum(isinstance(mail, Alive) for mail in bench.mail) >= 3, "the watchdog would take it for dead"
        await bench.workers.close()

    run_virtual(story())


def test_draining_finishes_the_batch_in_hand_and_begins_no_other() -> None:
    async def slow(_: Sequence[Record]) -> None:
        await asyncio.sleep(3)

    async def story() -> None:
        bench = Bench(slow)
        bench.deliver(0, 25)
        await asyncio.sleep(1)
        bench.workers.drain(A, 1)
        await asyncio.sleep(1)
        assert not bench.is_drained()
        await asyncio.sleep(1.5)
        assert bench.is_drained()
        assert bench.finished() == list(range(10))
        assert len(bench.batches) == 1

    run_virtual(story())


def test_draining_ends_a_pause_at_once_and_nothing_counts_as_finished() -> None:
    async def down(_: Sequence[Record]) -> None:
        raise TransientError("down", retry_after=100)

    async def story() -> None:
        bench = Bench(down)
        bench.deliver(0, 10)
        await asyncio.sleep(5)
        bench.workers.drain(A, 1)
        await asyncio.sleep(0.01)
        assert bench.is_drained()
        assert not bench.finished()

    run_virtual(story())


def test_a_worker_that_ended_is_drained_already() -> None:
    async def story() -> None:
        bench = Bench()
        bench.workers.drain(A, 1)
        await asyncio.sleep(0.01)
        bench.mail.clear()
        bench.workers.drain(A, 1)
        assert bench.is_drained()

    run_virtual(story())


def test_a_halt_keeps_the_partition_paused_alive_and_unfinished_until_it_is_revoked() -> None:
    async def poisoned(_: Sequence[Record]) -> None:
        raise ConsumptionHalted("too much fails")

    async def story() -> None:
        bench = Bench(poisoned)
        bench.deliver(0, 10)
        await asyncio.sleep(1000)
        assert len(bench.batches) == 1
        assert [mail.held for mail in bench.mail if isinstance(mail, Held)] == [True]
        assert sum(isinstance(mail, Alive) for mail in bench.mail) >= 99
        bench.workers.drain(A, 1)
        await asyncio.sleep(0.01)
        assert bench.is_drained()
        assert not bench.finished()

    run_virtual(story())


def test_an_error_that_a_handler_must_not_raise_is_reported() -> None:
    async def broken(_: Sequence[Record]) -> None:
        raise KeyError("oops")

    async def story() -> None:
        bench = Bench(broken)
        bench.deliver(0, 10)
        await asyncio.sleep(1)
        [broke] = [mail for mail in bench.mail if isinstance(mail, Broke)]
        assert isinstance(broke.error, KeyError)
        assert not bench.finished()

    run_virtual(story())


def test_a_handler_that_hangs_gives_no_sign_of_life() -> None:
    async def hangs(_: Sequence[Record]) -> None:
        await asyncio.sleep(10_000)

    async def story() -> None:
        bench = Bench(hangs)
        bench.deliver(0, 10)
        await asyncio.sleep(1000)
        assert bench.mail == []
        await bench.workers.close()

    run_virtual(story())


def test_a_handler_that_is_slow_but_gets_on_gives_signs_of_life() -> None:
    async def slow(_: Sequence[Record]) -> None:
        for _step in range(5):
            await asyncio.sleep(100)
            still_working()

    async def story() -> None:
        bench = Bench(slow)
        bench.deliver(0, 10)
        await asyncio.sleep(450)
        assert bench.mail == [Alive(A, 1)] * 4
        await bench.workers.close()

    run_virtual(story())


def test_abandoning_cancels_and_late_records_are_nobodys() -> None:
    async def slow(_: Sequence[Record]) -> None:
        await asyncio.sleep(3)

    async def story() -> None:
        bench = Bench(slow)
        bench.deliver(0, 10)
        await asyncio.sleep(1)
        bench.workers.abandon(A, 1)
        await asyncio.sleep(5)
        assert not bench.finished()
        bench.deliver(10, 10)
        await asyncio.sleep(5)
        assert len(bench.batches) == 1

    run_virtual(story())


@pytest.mark.parametrize("count", [1, 9, 10, 11, 37])
def test_every_record_is_handled_once_and_in_order(count: int) -> None:
    async def story() -> None:
        bench = Bench()
        bench.deliver(0, count)
        await asyncio.sleep(10)
        assert [offset for _, offsets in bench.batches for offset in offsets] == list(range(count))
        assert bench.finished() == list(range(count))
        await bench.workers.close()

    run_virtual(story())
