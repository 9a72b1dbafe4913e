"""Shared reads are never older than the question."""

from __future__ import annotations

import asyncio

import pytest

from cairn_answerer.latest import Latest


async def test_a_caller_gets_what_was_read_after_it_came() -> None:
    value = reads = 0

    async def read() -> int:
        nonlocal reads
        reads += 1
        seen = value
        await asyncio.sleep(0.01)
        return seen

    latest = Latest(read)
    first = asyncio.create_task(latest.get())
    await asyncio.sleep(0.005)
    value = 7
    later = [asyncio.create_task(latest.get()) for _ in range(50)]
    assert await first == 0
    assert await asyncio.gather(*later) == [7] * 50
    assert reads == 2
    value = 8
    assert await latest.get() == 8


async def test_a_failure_reaches_all_who_share_it_and_nobody_else() -> None:
    fail = True

    async def read() -> str:
        await asyncio.sleep(0)
        if fail:
            raise ValueError
        return "x"

    latest = Latest(read)
    results = await asyncio.gather(*(latest.get() for _ in range(3)), return_exceptions=True)
    assert all(isinstance(result, ValueError) for result in results)
    fail = False
    assert await latest.get() == "x"


async def test_a_caller_that_leaves_takes_nothing_from_the_others() -> None:
    async def read() -> str:
        await asyncio.sleep(0.02)
        return "x"

    latest = Latest(read)
    leaving, staying = asyncio.create_task(latest.get()), asyncio.create_task(latest.get())
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert await staying == "x"
