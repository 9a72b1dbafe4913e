"""Culprits are found by halving, outages are not taken for culprits."""

from __future__ import annotations

from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import given
from ingest_fakes import deliveries_of, source_event

from cairn_ingest_consumer.errors import Rejected
from cairn_ingest_consumer.isolation import Failed, Isolation, IsolationPolicy
from cairn_ingest_consumer.model import Delivery
from cairn_shared.errors import PermanentError, TransientError, Unavailable
from cairn_shared.kafka.errors import ConsumptionHalted

BATCH = deliveries_of([source_event(f"A-{n}", 1) for n in range(10)])
offsets = st.sets(st.integers(0, 9))


class Handler:
    """Fails as long as one of the culprits is in the batch; notes what went through."""

    def __init__(self, culprits: dict[int, Exception]) -> None:
        self.culprits = culprits
        self.done: set[int] = set()
        self.calls: list[list[int]] = []

    async def __call__(self, deliveries: Sequence[Delivery]) -> None:
        present = [delivery.record.offset for delivery in deliveries]
        self.calls.append(present)
        for offset in present:
            if offset in self.culprits:
                raise self.culprits[offset]
        self.done |= set(present)


async def settle(isolation: Isolation, handler: Handler, deliveries: Sequence[Delivery] = BATCH) -> list[Failed]:
    """As the engine does: a transient error means the same batch again."""
    for _ in range(20):
        try:
            return await isolation.run(handler, deliveries)
        except TransientError:
            continue
    raise AssertionError("never settled")


def failed_offsets(failed: list[Failed]) -> set[int]:
    return {failure.delivery.record.offset for failure in failed}


@given(culprits=offsets)
async def test_permanent_errors_hit_exactly_the_culprits_wherever_they_stand(culprits: set[int]) -> None:
    handler = Handler({offset: PermanentError("bad", stage="write") for offset in culprits})
    failed = await Isolation().run(handler, BATCH)
    assert failed_offsets(failed) == culprits
    assert handler.done == set(range(10)) - culprits
    assert all(failure.kind == "permanent" and failure.stage == "write" for failure in failed)


@given(culprits=offsets)
async def test_unknown_errors_hit_exactly_the_culprits_too_after_some_patience(culprits: set[int]) -> None:
    handler = Handler({offset: ValueError("odd") for offset in culprits})
    failed = await settle(Isolation(), handler)
    assert failed_offsets(failed) == culprits
    assert handler.done == set(range(10)) - culprits
    assert all(failure.kind == "unknown" for failure in failed)


@pytest.mark.parametrize("position", [0, 4, 9])
async def test_one_culprit_among_ten_costs_no_more_than_a_binary_search(position: int) -> None:
    handler = Handler({position: PermanentError("bad", stage="write")})
    await Isolation().run(handler, BATCH)
    assert len(handler.calls) <= 9


async def test_a_handler_that_names_its_culprits_is_believed() -> None:
    class Naming(Handler):
        async def __call__(self, deliveries: Sequence[Delivery]) -> None:
            named = {d.record.offset: (d, PermanentError("bad", stage="embed")) for d in deliveries}
            bad = {offset: named[offset] for offset in named if offset in (2, 7)}
            if bad:
                self.calls.append([])
                raise Rejected(bad)
            await super().__call__(deliveries)

    handler = Naming({})
    failed = await Isolation().run(handler, BATCH)
    assert failed_offsets(failed) == {2, 7}
    assert handler.done == set(range(10)) - {2, 7}
    assert len(handler.calls) == 2


async def test_a_transient_error_goes_up_at_once_and_nothing_is_halved() -> None:
    handler = Handler(dict.fromkeys(range(10), Unavailable("postgres")))
    with pytest.raises(Unavailable):
        await Isolation().run(handler, BATCH)
    assert len(handler.calls) == 1


async def test_a_transient_error_while_halving_goes_up_and_the_next_run_still_finds_the_culprit() -> None:
    handler = Handler({3: PermanentError("bad", stage="write"), 8: Unavailable("postgres")})
    isolation = Isolation()
    with pytest.raises(Unavailable):
        await isolation.run(handler, BATCH)
    del handler.culprits[8]
    assert failed_offsets(await isolation.run(handler, BATCH)) == {3}


async def test_a_halt_goes_up() -> None:
    with pytest.raises(ConsumptionHalted):
        await Isolation().run(Handler({0: ConsumptionHalted("enough")}), BATCH)


async def test_an_unknown_outage_that_ends_costs_no_dead_letter() -> None:
    handler = Handler(dict.fromkeys(range(10), RuntimeError("nobody translated this")))
    isolation = Isolation(IsolationPolicy(unknown_tries=3, outage_tries=6))
    for _ in range(5):
        with pytest.raises(TransientError):
            await isolation.run(handler, BATCH)
    handler.culprits.clear()
    assert await isolation.run(handler, BATCH) == []


async def test_an_unknown_error_of_a_single_record_is_not_dead_lettered_at_the_first_try() -> None:
    handler = Handler({0: RuntimeError("odd")})
    isolation = Isolation()
    for _ in range(2):
        with pytest.raises(TransientError):
            await isolation.run(handler, BATCH[:1])
    assert failed_offsets(await isolation.run(handler, BATCH[:1])) == {0}


async def test_tries_of_one_batch_do_not_count_for_the_next() -> None:
    handler = Handler({0: RuntimeError("odd"), 5: RuntimeError("odd")})
    isolation = Isolation()
    await settle(isolation, handler, BATCH[:5])
    with pytest.raises(TransientError):
        await isolation.run(handler, BATCH[5:])
