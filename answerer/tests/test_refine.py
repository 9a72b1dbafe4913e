"""Pitfall 29: a refined query is an addition, comes in time or not at all, and its absence is not hidden in the cache."""

from __future__ import annotations

import asyncio

from answerer_fakes import GOOD, Bench, ModelCall, Script, ScriptedModel, text_script

from cairn_shared.api.ask import AskRequest

QUESTION = AskRequest(question="What happened in PROJ-123 on db-1?")


def by_purpose(refining: Script) -> Script:
    async def run(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        await (GOOD if "DATA" in call.prompt else refining)(call, writer)

    return run


async def test_the_question_is_searched_as_it_is_and_the_refined_one_besides(
    bench: Bench, model: ScriptedModel
) -> None:
    model.scripts = [by_purpose(text_script('"database outage incident"\n'))]
    await (await bench.answerer(refine=1.0)).ask(QUESTION)
    asked = bench.retriever.requests[0].body
    assert asked["query"] == QUESTION.question
    assert asked["extra_query"] == "database outage incident"


async def test_a_refinement_that_is_late_changes_nothing_and_is_not_kept(bench: Bench, model: ScriptedModel) -> None:
    async def late(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)

    model.scripts = [by_purpose(late)]
    answerer = await bench.answerer(refine=0.1)
    first = await answerer.ask(QUESTION)
    second = await answerer.ask(QUESTION)
    assert bench.retriever.requests[0].body["extra_query"] is None
    assert (first.mode, second.mode) == ("full", "full")
    assert bench.store.failures == 0, "the circuit does not count it"


async def test_an_endless_refinement_is_cut(bench: Bench, model: ScriptedModel) -> None:
    model.scripts = [by_purpose(text_script("word " * 5000, piece=500))]
    await (await bench.answerer(refine=1.0)).ask(QUESTION)
    assert len(bench.retriever.requests[0].body["extra_query"]) <= 300
