"""Room for so many at once: the rest wait briefly, in order, and are refused rather than kept."""

from __future__ import annotations

import asyncio

import pytest
from answerer_bench import Bench
from answerer_servers import ScriptedModel, plan_script

from cairn_answerer.bulkhead import Bulkhead, Room
from cairn_shared.api.ask import AskRequest
from cairn_shared.errors import Overloaded


async def hold(bulkhead: Bulkhead, until: asyncio.Event, log: list[int], number: int) -> None:
    async with bulkhead.place(10):
        log.append(number)
        await until.wait()


async def test_who_waits_too_long_or_behind_too_many_is_refused() -> None:
    bulkhead = Bulkhead(Room(places=2, queue=1, patience=0.05))
    done, log = asyncio.Event(), list[int]()
    inside = [asyncio.create_task(hold(bulkhead, done, log, number)) for number in range(2)]
    await asyncio.sleep(0)
    waiting = asyncio.create_task(hold(bulkhead, done, log, 2))
    await asyncio.sleep(0)
    begun = asyncio.get_running_loop().time()
    with pytest.raises(Overloaded):
        await hold(bulkhead, done, log, 3)
    assert asyncio.get_running_loop().time() - begun < 0.04, "the queue is full: at once"
    with pytest.raises(Overloaded):
        await waiting
    done.set()
    await asyncio.gather(*inside)
    await hold(bulkhead, done, log, 4)
    assert log == [0, 1, 4]


async def test_one_that_leaves_while_it_waits_takes_no_place() -> None:
    bulkhead = Bulkhead(Room(places=1, queue=5, patience=5))
    done, log = asyncio.Event(), list[int]()
    inside = asyncio.create_task(hold(bulkhead, done, log, 0))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(hold(bulkhead, done, log, 1))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    done.set()
    await inside
    await asyncio.wait_for(hold(bulkhead, done, log, 2), 1)
    assert log == [0, 2]


async def test_where_the_model_has_no_room_the_steps_come_at_once(bench: Bench, model: ScriptedModel) -> None:
    model.scripts = [plan_script((1, [2]))]
    answerer = await bench.answerer(model_room=Room(places=1, queue=0, patience=0.1))
    writer = answerer._writer
    assert writer is not None
    async with writer._places.place(1):
        response = await answerer.ask(AskRequest(question="How do I recover the replica?"))
    assert (response.mode, response.degraded_reason) == ("excerpts", "llm_busy")
    assert not model.calls
    assert (await answerer.ask(AskRequest(question="How do I recover the replica?"))).mode == "full"


async def test_where_there_is_no_room_to_search_the_question_is_refused(bench: Bench) -> None:
    answerer = await bench.answerer()
    answerer._searches = Bulkhead(Room(places=1, queue=0, patience=0.1))
    async with answerer._searches.place(1):
        with pytest.raises(Overloaded):
            await answerer.ask(AskRequest(question="How do I recover the replica?"))
    assert (await answerer.ask(AskRequest(question="How do I recover the replica?"))).mode != "unavailable"
