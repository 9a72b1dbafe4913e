"""Leadership on real MongoDB: one at a time, takeover, hand-over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from cairn_gateway.adapters.mongo_leases import MongoLeases
from cairn_gateway.lease import Leadership, LeasePolicy
from cairn_gateway.metrics import Metrics
from cairn_gateway.model import Lease
from cairn_shared import mongo
from cairn_shared.clock import SystemClock
from cairn_shared.errors import Unavailable

if TYPE_CHECKING:
    from gateway.tests.edge.conftest import Eventually

POLICY = LeasePolicy(seconds=0.6)


@pytest.fixture
def leases(database: mongo.Database) -> MongoLeases:
    return MongoLeases(database["leases"])


class Workers:
    """Who works at which term; `peak` is the largest number at once."""

    def __init__(self) -> None:
        self.now: set[str] = set()
        self.terms: list[int] = []
        self.peak = 0

    async def work(self, name: str, term: int) -> None:
        self.now.add(name)
        self.peak = max(self.peak, len(self.now))
        self.terms.append(term)
        try:
            await asyncio.Event().wait()
        finally:
            self.now.discard(name)


def lead(leases: object, name: str, workers: Workers, metrics: Metrics) -> asyncio.Task[None]:
    leadership = Leadership(leases, name, SystemClock(), metrics, POLICY)  # type: ignore[arg-type]
    return asyncio.create_task(leadership.run(lambda term: workers.work(name, term)))


async def stop(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_lease_is_renewed_by_its_holder_and_refused_to_others_until_it_ends(leases: MongoLeases) -> None:
    first = await leases.acquire("relay", "a", 0.2)
    renewed = await leases.acquire("relay", "a", 0.2)
    refused = await leases.acquire("relay", "b", 0.2)
    assert [lease.holder for lease in (first, renewed, refused)] == ["a", "a", "a"]
    assert (first.term, renewed.term) == (1, 1)
    await asyncio.sleep(0.25)
    taken = await leases.acquire("relay", "b", 5)
    assert (taken.holder, taken.term) == ("b", 2)
    assert (await leases.acquire("relay", "a", 5)).holder == "b"


async def test_of_many_that_begin_at_once_one_leads(
    leases: MongoLeases, metrics: Metrics, eventually: Eventually
) -> None:
    workers = Workers()
    tasks = [lead(leases, f"gateway-{number}", workers, metrics) for number in range(5)]

    async def someone() -> bool:
        return len(workers.now) == 1

    await eventually(someone)
    await asyncio.sleep(1.0)  # longer than a lease: renewal holds it
    assert (workers.peak, workers.terms) == (1, [1])
    await stop(tasks)


async def test_a_leader_that_stops_hands_over_at_once(
    leases: MongoLeases, metrics: Metrics, eventually: Eventually
) -> None:
    workers = Workers()
    first = lead(leases, "a", workers, metrics)

    async def led_by_a() -> bool:
        return workers.now == {"a"}

    async def led_by_b() -> bool:
        return workers.now == {"b"}

    await eventually(led_by_a)
    second = lead(leases, "b", workers, metrics)
    await stop([first])
    await eventually(led_by_b, within=0.5)
    assert workers.terms == [1, 2]
    await stop([second])


class DeafLeases:
    """MongoDB as a partitioned process sees it: after `reachable` answers it is away."""

    def __init__(self, inner: MongoLeases, reachable: int) -> None:
        self.inner = inner
        self.reachable = reachable

    async def acquire(self, name: str, holder: str, seconds: float) -> Lease:
        self.reachable -= 1
        if self.reachable < 0:
            raise Unavailable("mongo")
        return await self.inner.acquire(name, holder, seconds)

    async def release(self, name: str, holder: str) -> None:
        raise Unavailable("mongo")


async def test_a_leader_cut_off_from_mongodb_stops_before_another_takes_over(
    leases: MongoLeases, metrics: Metrics, eventually: Eventually
) -> None:
    workers = Workers()
    cut_off = lead(DeafLeases(leases, reachable=1), "a", workers, metrics)

    async def led_by_a() -> bool:
        return workers.now == {"a"}

    async def led_by_b() -> bool:
        return "b" in workers.now

    await eventually(led_by_a)
    other = lead(leases, "b", workers, metrics)
    await eventually(led_by_b, within=3.0)
    assert (workers.peak, workers.terms) == (1, [1, 2])
    await stop([cut_off, other])


async def test_work_that_fails_begins_anew(leases: MongoLeases, metrics: Metrics, eventually: Eventually) -> None:
    begun: list[int] = []

    async def work(term: int) -> None:
        begun.append(term)
        if len(begun) == 1:
            raise RuntimeError("a bug")
        await asyncio.Event().wait()

    task = asyncio.create_task(Leadership(leases, "a", SystemClock(), metrics, POLICY).run(work))

    async def twice() -> bool:
        return len(begun) == 2

    await eventually(twice)
    await stop([task])
