"""Pitfall 29: a refined query is an addition, comes in time or not at all, and its absence is not hidden in the cache."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from answerer_bench import Bench, HandClock, MemoryStore
from answerer_corpus import make_event, make_hit, make_search
from answerer_servers import GOOD, ModelCall, Script, ScriptedModel, begin_stream, delta, plan_script, text_script

from cairn_answerer.breaker import Circuit, Policy
from cairn_answerer.model import Passage
from cairn_answerer.ports import Completion, JsonSchema, Message, Reader
from cairn_answerer.refine import Refiner
from cairn_shared.api.ask import AskRequest
from cairn_shared.api.search import SearchResponse

QUESTION = AskRequest(question="What happened in PROJ-123 on db-1?")
REPORT = "Deployment orders-42 raised pool_size."


def by_purpose(refining: Script, answering: Script = GOOD) -> Script:
    async def run(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        await (answering if "DATA" in call.prompt else refining)(call, writer)

    return run


async def report(call: ModelCall, writer: asyncio.StreamWriter) -> None:
    """Chooses what the first event says."""
    await plan_script((call.event_ids[0], [1]))(call, writer)


async def test_the_question_is_searched_as_it_is_and_the_refined_one_besides(
    bench: Bench, model: ScriptedModel
) -> None:
    model.scripts = [by_purpose(text_script('"database outage incident"\n'))]
    await (await bench.answerer(refine=1.0)).ask(QUESTION)
    asked = bench.retriever.requests[0].body
    assert asked["query"] == QUESTION.question
    assert asked["extra_query"] == "database outage incident"


@pytest.mark.parametrize(
    ("found", "answering", "mode"),
    [
        pytest.param(make_search(make_hit(1), make_hit(2)), GOOD, "full", id="a runbook"),
        pytest.param(make_search(make_event(REPORT, kind="deployment")), report, "full", id="events"),
        pytest.param(make_search(make_hit(1), enough=False), GOOD, "refused", id="too little"),
    ],
)
async def test_a_refinement_that_is_late_changes_nothing_and_is_not_kept(
    bench: Bench, model: ScriptedModel, found: SearchResponse, answering: Script, mode: str
) -> None:
    async def late(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)

    model.scripts = [by_purpose(late, answering)]
    bench.retriever.answer = found
    bench.corpus.steps += [Passage.of(hit) for hit in found.results if hit.kind != "runbook"]
    answerer = await bench.answerer(refine=0.1)
    answers = [await answerer.ask(QUESTION) for _ in range(2)]
    assert [(answer.mode, answer.degraded) for answer in answers] == [(mode, False)] * 2
    assert [request.body["extra_query"] for request in bench.retriever.requests] == [None, None], "searched twice"
    assert bench.store.failures == 0, "the circuit does not count it"


class NeverAsked:
    """A model that must be left alone."""

    async def attempt(
        self, messages: Sequence[Message], reader: Reader, *, seconds: float, schema: JsonSchema | None = None
    ) -> Completion:
        raise AssertionError("asked")


async def test_while_the_circuit_is_open_nothing_is_refined_and_that_counts_as_missing() -> None:
    clock, store = HandClock(), MemoryStore()
    store.opened_at = clock.now().timestamp()
    circuit = Circuit(store, clock, Policy())
    await circuit.refresh()
    assert await Refiner(NeverAsked(), circuit, 1.0).refine("How?") == (None, True)


async def test_an_endless_refinement_is_cut(bench: Bench, model: ScriptedModel) -> None:
    """Its beginning is used: nobody waits for more, nor until the time is up."""

    async def endless(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        for _ in range(10):
            writer.write(delta("word " * 100))
        await writer.drain()
        await asyncio.sleep(60)

    model.scripts = [by_purpose(endless)]
    await (await bench.answerer(refine=10.0, deadline=30.0)).ask(QUESTION)
    query = bench.retriever.requests[0].body["extra_query"]
    assert query.startswith("word word")
    assert len(query) <= 300
