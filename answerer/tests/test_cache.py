"""Pitfalls 23, 24 and 26: an answer is found again only while it still holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import asyncpg
import pytest
from answerer_bench import Bench, MemoryStore
from answerer_corpus import make_event, make_hit, make_passage, make_search
from answerer_servers import GOOD, ScriptedModel, plan_script, post, serving, status_script

from cairn_answerer import cache
from cairn_answerer.app import create_app
from cairn_answerer.cache import Fingerprints, key, normalised
from cairn_answerer.model import CorpusState
from cairn_answerer.settings import AnswererSettings
from cairn_shared.api.ask import AskRequest, AskResponse
from cairn_shared.api.search import SearchRequest, SearchResponse

QUESTION = AskRequest(question="How do I recover the replica?")


async def modes(bench: Bench, *requests: AskRequest) -> list[str]:
    answerer = await bench.answerer()
    return [(await answerer.ask(request)).mode for request in requests]


class TestKey:
    STATE = CorpusState(1, "minilm")
    PRINTS = Fingerprints("m", "1", "r")

    def make(self, request: AskRequest = QUESTION, state: CorpusState | None = STATE, **prints: str) -> str:
        return key(request, state, replace(self.PRINTS, **prints))

    def test_everything_that_decides_an_answer_is_in_it(self) -> None:
        """Pitfall 26."""
        keys = {
            self.make(),
            self.make(state=CorpusState(2, "minilm")),
            self.make(state=CorpusState(1, "other")),
            self.make(state=None),
            self.make(model="n"),
            self.make(prompt="2"),
            self.make(retrieval="s"),
            self.make(AskRequest(question="How do I recover the replica?", k=3)),
            self.make(AskRequest.model_validate({"question": QUESTION.question, "filters": {"service": "db"}})),
            self.make(AskRequest.model_validate({"question": QUESTION.question, "filters": {"source": "db"}})),
            self.make(AskRequest.model_validate({"question": QUESTION.question, "alert": {"name": "X"}})),
            self.make(AskRequest.model_validate({"question": QUESTION.question, "alert": {"labels": {"pod": "a"}}})),
            self.make(AskRequest(question="How do I recover the replica")),
        }
        assert len(keys) == 13

    def test_spelling_that_means_the_same_shares_it(self) -> None:
        assert self.make(AskRequest(question="a b")) == self.make(AskRequest(question=" A  b"))
        assert normalised("Ｆｕｌｌ\u00a0width\n") == "full width"

    def test_how_it_is_delivered_does_not_matter(self) -> None:
        assert self.make(AskRequest(question="a", stream=True)) == self.make(AskRequest(question="a"))
        assert self.make(AskRequest(question="a", min_revision={"x": 1})) == self.make(AskRequest(question="a"))

    def test_parts_cannot_run_into_one_another(self) -> None:
        assert self.make(model="ab", prompt="c") != self.make(model="a", prompt="bc")


async def test_a_changed_deleted_or_added_runbook_gives_a_new_answer(bench: Bench, model: ScriptedModel) -> None:
    """Pitfall 23."""
    answerer = await bench.answerer()
    assert (await answerer.ask(QUESTION)).mode == "full"
    assert (await answerer.ask(QUESTION)).mode == "cached"
    bench.corpus.epoch = 2
    assert (await answerer.ask(QUESTION)).mode == "full"
    assert len(model.calls) == 2


async def test_an_answer_made_while_the_corpus_moved_on_is_not_found_under_the_new_epoch(
    bench: Bench, model: ScriptedModel
) -> None:
    """Pitfall 23: the epoch is read before retrieval."""

    def moving(_: SearchRequest) -> SearchResponse:
        bench.corpus.epoch += 1
        return make_search(make_hit(1), make_hit(2))

    bench.retriever.answer = moving
    answerer = await bench.answerer()
    assert (await answerer.ask(QUESTION)).mode == "full"
    assert (await answerer.ask(QUESTION)).mode == "full"
    assert len(model.calls) == 2


async def test_an_event_that_arrives_does_not_flush_answers_but_a_changed_source_does(
    bench: Bench, model: ScriptedModel
) -> None:
    """Pitfall 23."""
    event = make_event("Deployment orders-42 raised pool_size", kind="deployment")
    bench.retriever.answer = make_search(make_hit(1), make_hit(2), event)
    bench.corpus.steps.append(
        make_passage(1, event.text, step_id=event.step_id, document_id=event.document_id, kind="deployment")
    )
    answerer = await bench.answerer()
    assert (await answerer.ask(QUESTION)).mode == "full"
    assert max(bench.store.seconds.values()) == 24 * 3600.0, "the corpus state"
    assert 90.0 in bench.store.seconds.values(), "an answer near events is short-lived"
    bench.corpus.steps.append(make_passage(9, "another event", kind="log"))
    assert (await answerer.ask(QUESTION)).mode == "cached"
    bench.corpus.steps[-2] = replace(bench.corpus.steps[-2], content_sha="count-2")
    assert (await answerer.ask(QUESTION)).mode == "full"
    assert len(model.calls) == 2


@pytest.mark.parametrize(
    "change",
    ["UPDATE steps SET content_sha = 'other' WHERE step_number = 2", "DELETE FROM steps WHERE step_number = 2"],
    ids=["changed", "deleted"],
)
async def test_a_source_that_was_changed_or_deleted_in_postgres_gives_a_new_answer(
    make_settings: Callable[..., AnswererSettings],
    index: asyncpg.Connection[asyncpg.Record],
    model: ScriptedModel,
    change: str,
) -> None:
    """Pitfall 23, in SQL; no epoch tells of it."""
    async with serving(create_app(make_settings())) as url:
        assert [(await post(url))["mode"] for _ in range(2)] == ["full", "cached"]
        await index.execute(change)
        assert (await post(url))["mode"] == "full"
    assert len(model.calls) == 2


async def test_what_was_kept_between_the_look_and_the_start_of_the_work_is_used(
    bench: Bench, model: ScriptedModel
) -> None:
    """Pitfall 25: whoever looked just before another flight ended does not ask the model again."""

    class JustMissed(MemoryStore):
        misses = 0

        async def get(self, key: str) -> bytes | None:
            if key.startswith("cairn:ans:v") and self.misses:
                self.misses -= 1
                return None
            return await super().get(key)

    bench.store = store = JustMissed()
    await (await bench.answerer()).ask(QUESTION)
    store.misses = 1
    assert (await (await bench.answerer()).ask(QUESTION)).mode == "cached"
    assert store.misses == 0
    assert len(model.calls) == 1


async def test_degraded_answers_are_never_kept(bench: Bench, model: ScriptedModel) -> None:
    """Pitfall 24: the model away, then back: the second request asks it."""
    model.scripts = [status_script(401)]
    answerer = await bench.answerer()
    assert (await answerer.ask(QUESTION)).mode == "excerpts"
    model.scripts = [GOOD]
    assert (await answerer.ask(QUESTION)).mode == "full"
    assert (await answerer.ask(QUESTION)).mode == "cached"


async def test_keyword_answers_are_never_kept(bench: Bench, model: ScriptedModel) -> None:
    bench.retriever.answer = make_search(make_hit(1), make_hit(2), degraded=["embedder"])
    assert await modes(bench, QUESTION, QUESTION) == ["keyword", "keyword"]
    assert len(model.calls) == 2


async def test_a_refusal_is_kept_for_a_short_time(bench: Bench, model: ScriptedModel) -> None:
    model.scripts = [plan_script(answerable=False)]
    assert await modes(bench, QUESTION, QUESTION) == ["refused", "refused"]
    assert len(model.calls) == 1
    assert 45.0 in bench.store.seconds.values()


@pytest.mark.parametrize("junk", [b"", b"null", b"{}", b"\xff\xfe", b"x" * 600_000, b'{"schema_version": 0}'])
async def test_what_cannot_be_read_is_a_miss(bench: Bench, junk: bytes) -> None:
    answerer = await bench.answerer()
    await answerer.ask(QUESTION)
    for name in list(bench.store.values):
        bench.store.values[name] = junk
    assert (await answerer.ask(QUESTION)).mode == "full"


async def test_without_postgres_a_kept_answer_is_given_and_marked(bench: Bench, model: ScriptedModel) -> None:
    answerer = await bench.answerer()
    await answerer.ask(QUESTION)
    bench.corpus.away = True
    bench.retriever.status = 503
    for replica in (answerer, await bench.answerer()):
        response = await replica.ask(QUESTION)
        assert (response.mode, response.degraded, response.degraded_reason) == ("cached", True, "postgres_unavailable")
        assert response.freshness.index_time is None
    other = await answerer.ask(AskRequest(question="something else"))
    assert (other.mode, other.degraded_reason) == ("unavailable", "postgres_unavailable")
    assert len(model.calls) == 1


async def test_a_stored_answer_keeps_nothing_of_the_request_that_made_it(bench: Bench) -> None:
    answerer = await bench.answerer()
    await answerer.ask(QUESTION)
    stored = [cache.decode(value) for name, value in bench.store.values.items() if name.startswith("cairn:ans:v")]
    responses: list[Any] = [entry.response for entry in stored if entry]
    assert len(responses) == 1
    assert isinstance(responses[0], AskResponse)
    assert responses[0].request_id is None
    assert QUESTION.question not in str(bench.store.values)
