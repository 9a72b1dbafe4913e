"""The frequencies of words are read again when runbooks changed; under load nobody waits for the next reading."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry
from retriever_corpus import Document, FrozenClock, write

from cairn_retriever.adapters.runbook_lexicon import RunbookLexicon
from cairn_retriever.metrics import Metrics
from cairn_shared.errors import CairnError

if TYPE_CHECKING:
    from cairn_shared.postgres import Pool


def made(pool: Pool, clock: FrozenClock, max_age: float = 1.0) -> RunbookLexicon:
    return RunbookLexicon(pool, clock, Metrics(CollectorRegistry()), max_age)


async def test_the_same_epoch_is_read_once_however_many_ask(pool: Pool, clock: FrozenClock) -> None:
    await write(pool, [Document("one", "First", ["Alpha."])])
    lexicon = made(pool, clock)
    first, *others = await asyncio.gather(*(lexicon.of(1) for _ in range(5)))
    clock.elapsed += 3600
    assert all(other is first for other in [*others, await lexicon.of(1)])
    assert (first.chunks, first.frequency("alpha")) == (1, 1)


async def test_while_runbooks_change_a_search_goes_on_with_the_last_reading(pool: Pool, clock: FrozenClock) -> None:
    await write(pool, [Document("one", "First", ["Alpha."])])
    lexicon = made(pool, clock)
    before = await lexicon.of(1)
    await write(pool, [Document("two", "Second", ["Alpha."])])
    assert await lexicon.of(2) is before, "younger than the greatest age"
    clock.elapsed += 2
    assert await lexicon.of(2) is before, "the next is being read"
    async with asyncio.timeout(10):
        while (after := await lexicon.of(2)) is before:
            await asyncio.sleep(0.01)
    assert after.frequency("alpha") == 2


async def test_a_reading_of_long_ago_is_not_used(pool: Pool, clock: FrozenClock) -> None:
    await write(pool, [Document("one", "First", ["Alpha."])])
    lexicon = made(pool, clock)
    await lexicon.of(1)
    await write(pool, [Document("two", "Second", ["Alpha."])])
    clock.elapsed += 60
    assert (await lexicon.of(2)).frequency("alpha") == 2


async def test_with_no_age_allowed_everybody_gets_the_epoch_asked_for(pool: Pool, clock: FrozenClock) -> None:
    lexicon = made(pool, clock, max_age=0.0)
    for number in range(1, 4):
        reading = asyncio.create_task(lexicon.of(number - 1))
        await asyncio.sleep(0)
        await write(pool, [Document(f"book-{number}", f"Book {number}", ["Alpha."])])
        assert (await lexicon.of(number)).frequency("alpha") == number
        await reading


async def test_a_reading_goes_on_when_the_first_who_wanted_it_leaves(pool: Pool, clock: FrozenClock) -> None:
    await write(pool, [Document("one", "First", ["Alpha."])])
    lexicon = made(pool, clock)
    leaving, staying = asyncio.create_task(lexicon.of(1)), asyncio.create_task(lexicon.of(1))
    await asyncio.sleep(0)
    leaving.cancel()
    assert (await staying).frequency("alpha") == 1


async def test_a_reading_that_fails_is_told_to_who_waits_and_tried_again(pool: Pool, clock: FrozenClock) -> None:
    await write(pool, [Document("one", "First", ["Alpha."])])
    lexicon = made(pool, clock)
    await pool.execute("ALTER TABLE chunks RENAME TO hidden")
    with pytest.raises(CairnError, match="UndefinedTable"):
        await lexicon.of(1)
    await pool.execute("ALTER TABLE hidden RENAME TO chunks")
    assert (await lexicon.of(1)).frequency("alpha") == 1
