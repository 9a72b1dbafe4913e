"""The batcher: order, isolation, bounds, cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from cairn_embedder.batching import Batcher, BatchPolicy, plan_batch
from cairn_embedder.metrics import EmbedderMetrics
from cairn_embedder.model import Tokens, Vector
from cairn_shared.clock import SystemClock
from cairn_shared.errors import InvalidInput, TransientError

POISON, NAN, LONG, ZERO, HUGE = 666, 667, 668, 669, 670


class Model:
    """Gives each text a vector of its own; can be held back, fails on the text `POISON`, has no memory for `HUGE`."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()

    def encode(self, batch: Sequence[Sequence[int]]) -> Vector:
        assert self.gate.wait(10)
        self.batches.append([ids[0] for ids in batch])
        if self.error:
            raise self.error
        if any(POISON in ids for ids in batch):
            raise RuntimeError("choked")
        if any(HUGE in ids for ids in batch):
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return np.stack([vector_of(ids[0]) for ids in batch])


def vector_of(number: int) -> Vector:
    if number in (NAN, LONG, ZERO):
        return np.full(2, {NAN: np.nan, LONG: 3.0, ZERO: 0.0}[number], dtype=np.float32)
    return np.array([np.cos(number), np.sin(number)], dtype=np.float32)


def text(number: int, length: int = 10) -> Tokens:
    return Tokens((number,) * length, length)


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
async def batcher(model: Model, registry: CollectorRegistry) -> AsyncIterator[Batcher]:
    policy = BatchPolicy(max_tokens=40, busy_tokens=20, window=16, max_queries=4, max_passages=12, query_turns=2)
    batcher = Batcher(model.encode, text(0).ids, policy, EmbedderMetrics(registry), SystemClock())
    task = asyncio.create_task(batcher.run())
    yield batcher
    model.gate.set()
    task.cancel()


async def until_waiting(registry: CollectorRegistry, kind: str, texts: int) -> None:
    async with asyncio.timeout(5):
        while registry.get_sample_value("cairn_embedder_queue_texts", {"kind": kind}) != texts:
            await asyncio.sleep(0.001)


async def test_results_keep_the_order_of_the_texts(batcher: Batcher) -> None:
    lengths = [9, 3, 7, 1, 8, 2, 30]
    results = await batcher.submit([text(n, length) for n, length in enumerate(lengths, 1)], "passage")
    for number, result in enumerate(results, 1):
        assert not isinstance(result, Exception)
        np.testing.assert_array_equal(result, vector_of(number))


async def test_concurrent_requests_share_batches(batcher: Batcher, model: Model, registry: CollectorRegistry) -> None:
    model.gate.clear()
    first = asyncio.create_task(batcher.submit([text(1)], "passage"))
    await until_waiting(registry, "passage", 0)
    others = [asyncio.create_task(batcher.submit([text(number)], "passage")) for number in (2, 3, 4)]
    await until_waiting(registry, "passage", 3)
    model.gate.set()
    await asyncio.gather(first, *others)
    assert model.batches == [[1], [2, 3, 4]]


async def test_queries_go_ahead_but_passages_get_their_turn(
    batcher: Batcher, model: Model, registry: CollectorRegistry
) -> None:
    model.gate.clear()
    first = asyncio.create_task(batcher.submit([text(1)], "passage"))
    await until_waiting(registry, "passage", 0)
    passages = asyncio.create_task(batcher.submit([text(2, 30), text(3, 30)], "passage"))
    await until_waiting(registry, "passage", 2)
    queries = [asyncio.create_task(batcher.submit([text(number, 30)], "query")) for number in (11, 12, 13, 14)]
    await until_waiting(registry, "query", 4)
    model.gate.set()
    await asyncio.gather(first, passages, *queries)
    assert model.batches == [[1], [11], [12], [2], [13], [14], [3]]


async def test_passages_are_batched_smaller_while_queries_come_in(
    batcher: Batcher, model: Model, registry: CollectorRegistry
) -> None:
    model.gate.clear()
    query = asyncio.create_task(batcher.submit([text(11)], "query"))
    await asyncio.sleep(0.02)
    passages = asyncio.create_task(batcher.submit([text(1), text(2), text(3), text(4)], "passage"))
    await until_waiting(registry, "passage", 4)
    model.gate.set()
    await asyncio.gather(query, passages)
    assert model.batches == [[11], [1, 2], [3, 4]]


async def test_one_poisoned_text_does_not_harm_the_others(batcher: Batcher) -> None:
    mine = asyncio.create_task(batcher.submit([text(1), text(POISON), text(2)], "passage"))
    others = await batcher.submit([text(3)], "passage")
    one, poisoned, two = await mine
    assert isinstance(poisoned, InvalidInput)
    for number, result in ((1, one), (2, two), (3, others[0])):
        assert not isinstance(result, Exception)
        np.testing.assert_array_equal(result, vector_of(number))
    assert batcher.is_healthy


@pytest.mark.parametrize("bad", [NAN, LONG, ZERO], ids=["not finite", "not of length one", "zero"])
async def test_a_vector_that_cannot_be_used_fails_its_text_only(batcher: Batcher, bad: int) -> None:
    one, unusable = await batcher.submit([text(1), text(bad)], "passage")
    assert not isinstance(one, Exception)
    assert isinstance(unusable, InvalidInput)


async def test_a_model_that_fails_on_everything_blames_itself_and_recovers(batcher: Batcher, model: Model) -> None:
    model.error = RuntimeError("broken")
    results = await batcher.submit([text(1), text(2)], "passage")
    assert all(isinstance(result, TransientError) for result in results)
    assert not batcher.is_healthy
    model.error = None
    (result,) = await batcher.submit([text(1)], "passage")
    assert not isinstance(result, Exception)
    assert batcher.is_healthy


async def test_lack_of_memory_is_transient(batcher: Batcher) -> None:
    """Though there is enough for a harmless text."""
    (result,) = await batcher.submit([text(HUGE)], "passage")
    assert isinstance(result, TransientError)
    assert batcher.is_healthy


async def test_a_full_queue_refuses_and_says_when_to_come_back(
    batcher: Batcher, model: Model, registry: CollectorRegistry
) -> None:
    model.gate.clear()
    first = asyncio.create_task(batcher.submit([text(1)], "passage"))
    await until_waiting(registry, "passage", 0)
    waiting = asyncio.create_task(batcher.submit([text(number) for number in range(2, 12)], "passage"))
    await until_waiting(registry, "passage", 10)
    with pytest.raises(TransientError) as caught:
        await batcher.submit([text(20), text(21), text(22)], "passage")
    assert caught.value.retry_after is not None
    assert caught.value.retry_after >= 1
    query = asyncio.create_task(batcher.submit([text(30)], "query"))
    await until_waiting(registry, "query", 1)
    model.gate.set()
    await asyncio.gather(first, waiting, query)
    assert registry.get_sample_value("cairn_embedder_refused_total", {"reason": "queue-full"}) == 3


async def test_a_cancelled_request_takes_its_texts_back(
    batcher: Batcher, model: Model, registry: CollectorRegistry
) -> None:
    model.gate.clear()
    first = asyncio.create_task(batcher.submit([text(1)], "passage"))
    await until_waiting(registry, "passage", 0)
    dropped = asyncio.create_task(batcher.submit([text(2), text(3)], "passage"))
    kept = asyncio.create_task(batcher.submit([text(4)], "passage"))
    await until_waiting(registry, "passage", 3)
    dropped.cancel()
    await until_waiting(registry, "passage", 1)
    model.gate.set()
    await asyncio.gather(first, kept)
    assert model.batches == [[1], [4]]


async def test_a_request_cancelled_while_it_is_computed_harms_nobody(batcher: Batcher, model: Model) -> None:
    model.gate.clear()
    first = asyncio.create_task(batcher.submit([text(1)], "passage"))
    await asyncio.sleep(0.02)
    first.cancel()
    model.gate.set()
    (result,) = await batcher.submit([text(2)], "passage")
    assert not isinstance(result, Exception)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(10, 200))
def test_a_batch_holds_the_oldest_text_within_the_budget(lengths: list[int], max_tokens: int) -> None:
    batch = plan_batch(lengths, max_tokens)
    chosen = [lengths[index] for index in batch]
    assert 0 in batch
    assert len(set(batch)) == len(batch)
    assert len(batch) == 1 or max(chosen) * len(chosen) <= max_tokens
    between = [length for index, length in enumerate(lengths) if index not in batch]
    assert not any(min(chosen) < length < max(chosen) for length in between)
