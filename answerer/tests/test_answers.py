"""The service over HTTP, with a real PostgreSQL, a real Redis, and servers in place of retriever and model."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from answerer_corpus import STEPS, make_event, make_hit, make_search
from answerer_servers import GOOD, FakeRetriever, ScriptedModel, plan_script, post, serving

from cairn_answerer.app import create_app
from cairn_answerer.settings import AnswererSettings
from cairn_shared.api.ask import REFUSAL

Settings = Callable[..., AnswererSettings]
pytestmark = pytest.mark.usefixtures("index")


async def test_a_supported_answer_carries_markers_written_by_code(make_settings: Settings) -> None:
    async with serving(create_app(make_settings())) as url:
        answer = await post(url)
    assert answer["mode"] == "full"
    assert answer["degraded"] is False
    marker = "[PostgreSQL replica, fallen behind, Step 1]"
    first = answer["claims"][0]
    assert (first["text"], first["origin"]) == (STEPS[0], "runbook")
    assert [citation["marker"] for citation in first["citations"]] == [marker]
    assert (first["citations"][0]["label"], first["citations"][0]["lines"]) == ("1", None)
    assert answer["answer"].startswith(f"**{marker}**\n\n{STEPS[0]}\n\n**[PostgreSQL replica")
    cited = {source["step"] for source in answer["sources"] if source["cited"]}
    assert cited == {1, 2}
    assert answer["freshness"]["index_time"] is None
    assert answer["request_id"]


async def test_without_a_model_the_matching_procedure_is_shown_in_order(make_settings: Settings) -> None:
    settings = make_settings(llm_base_url=None, llm_api_key=None, llm_model=None)
    async with serving(create_app(settings)) as url:
        answer = await post(url)
    assert (answer["mode"], answer["degraded_reason"]) == ("excerpts", "llm_not_configured")
    places = [answer["answer"].index(f"Step {number}]") for number in (1, 2, 3, 4)]
    assert places == sorted(places)
    assert [source["step"] for source in answer["sources"] if source["cited"]] == [1, 2, 3, 4]


async def test_the_second_time_the_answer_comes_from_the_cache(make_settings: Settings, model: ScriptedModel) -> None:
    async with serving(create_app(make_settings())) as url:
        first = await post(url)
        second = await post(url, "  how do I RECOVER the   replica? ")
    assert (first["mode"], second["mode"]) == ("full", "cached")
    assert second["claims"] == first["claims"]
    assert second["request_id"] != first["request_id"]
    assert len(model.calls) == 1


async def test_commands_carry_a_label_and_the_alerts_values(make_settings: Settings, retriever: FakeRetriever) -> None:
    retriever.answer = make_search(make_hit(4))
    async with serving(create_app(make_settings(llm_base_url=None, llm_api_key=None))) as url:
        answer = await post(url, alert={"name": "PodStuck", "labels": {"namespace": "prod", "pod": "pg-1"}})
    commands = {source["step"]: source["commands"] for source in answer["sources"]}
    assert commands[4] == [
        {
            "text": "kubectl -n prod delete pod pg-1 --grace-period=30",
            "safety": "destructive",
            "unfilled": [],
            "template": "kubectl -n $NAMESPACE delete pod <pod> --grace-period=30",
        }
    ]
    assert commands[3][0]["safety"] == "changes state"


async def test_events_are_told_apart_from_runbooks(
    make_settings: Settings, retriever: FakeRetriever, model: ScriptedModel
) -> None:
    retriever.answer = make_search(make_event("Deployment orders-42 raised pool_size to 200", kind="deployment"))

    async def script(call: Any, writer: Any) -> None:
        await plan_script((call.event_ids[0], [1], "What changed before."))(call, writer)

    model.scripts = [script]
    async with serving(create_app(make_settings())) as url:
        answer = await post(url, "what changed in orders-42?")
    assert "Reported by events, not by a runbook:" in answer["answer"]
    assert "\n\n> Deployment orders-42 raised pool_size to 200" in answer["answer"], "a quotation"
    lead, report = answer["claims"]
    assert (lead["origin"], lead["citations"], report["origin"]) == ("model", [], "event")
    assert report["citations"][0]["marker"] == "[deployment: orders, 2026-11-20]"


@pytest.mark.parametrize("with_model", [True, False])
async def test_an_event_is_no_reason_to_show_a_runbook_that_is_no_answer(
    make_settings: Settings, retriever: FakeRetriever, model: ScriptedModel, *, with_model: bool
) -> None:
    commit = make_event("Pin the pool to 20 connections", kind="commit", title="Pin the pool", author="Ada")
    retriever.answer = make_search(make_hit(1), commit, make_hit(2), runbooks=False, events=True)
    model.scripts = [lambda call, writer: plan_script((call.event_ids[0], [1]))(call, writer)]
    settings = make_settings() if with_model else make_settings(llm_base_url=None, llm_api_key=None)
    async with serving(create_app(settings)) as url:
        answer = await post(url, "who pinned the pool?")
    assert [source["kind"] for source in answer["sources"]] == ["commit"]
    assert "**[commit: Pin the pool, 2026-11-20]** (Ada, 2026-11-20 00:00 UTC)\n\n> Pin the pool" in answer["answer"]
    assert answer["sources"][0]["author"] == "Ada"


async def test_where_both_halves_are_an_answer_both_are_shown(
    make_settings: Settings, retriever: FakeRetriever
) -> None:
    retriever.answer = make_search(make_event("orders-42 was deployed", kind="deployment"), make_hit(1))
    async with serving(create_app(make_settings(llm_base_url=None, llm_api_key=None))) as url:
        answer = await post(url, "what happened to orders-42?")
    assert {source["kind"] for source in answer["sources"] if source["cited"]} == {"deployment", "runbook"}
    assert answer["answer"].startswith("Reported by events")
    assert STEPS[0] in answer["answer"]


async def test_nothing_relevant_is_refused_without_asking_the_model(
    make_settings: Settings, retriever: FakeRetriever, model: ScriptedModel
) -> None:
    """Pitfall 22."""
    retriever.answer = make_search(make_hit(1), enough=False)
    async with serving(create_app(make_settings())) as url:
        answer = await post(url, "What is the capital of France?")
    assert (answer["mode"], answer["answer"]) == ("refused", REFUSAL)
    assert answer["claims"] == answer["sources"] == []
    assert model.calls == []


async def test_a_refusal_names_the_nearest_runbooks_and_why(make_settings: Settings, retriever: FakeRetriever) -> None:
    books = [uuid.uuid5(uuid.NAMESPACE_OID, str(number)) for number in range(5)]
    pages = [
        make_hit(number, "Look.", runbook_id=f"book-{place}", document_id=book)
        for place, book in enumerate(books)
        for number in (1, 2)
    ]
    retriever.answer = make_search(make_event("an event"), *pages, enough=False)
    async with serving(create_app(make_settings())) as url:
        answer = await post(url, "What is the capital of France?")
        kept = await post(url, "What is the capital of France?")
    assert [page["runbook_id"] for page in answer["nearest"]] == ["book-0", "book-1", "book-2"], "each once, no event"
    assert (answer["nearest"][0]["step"], answer["nearest"][0]["why"]) == (1, "Look.")
    assert kept["nearest"] == answer["nearest"]


@pytest.mark.parametrize(
    ("alert", "alerts", "routed", "missing"),
    [
        ({"name": "DiskFull"}, ["other"], False, "DiskFull"),
        ({"name": "DiskFull"}, ["diskfull"], False, None),
        ({"name": "DiskFull"}, ["other"], True, None),
        ({"labels": {"pod": "pg-1"}}, ["other"], False, None),
        (None, ["other"], False, None),
    ],
)
async def test_an_alert_that_no_runbook_is_for_is_named_though_a_near_one_is_shown(
    make_settings: Settings,
    retriever: FakeRetriever,
    *,
    alert: dict[str, Any] | None,
    alerts: list[str],
    routed: bool,
    missing: str | None,
) -> None:
    found = make_search(make_hit(1, "Look.").model_copy(update={"alerts": alerts}))
    retriever.answer = found.model_copy(update={"gate": found.gate.model_copy(update={"routed": routed})})
    async with serving(create_app(make_settings())) as url:
        answer = await post(url, "the disk is full", **({"alert": alert} if alert else {}))
    assert answer["missing_alert"] == missing
    assert answer["mode"] != "refused"


async def test_where_the_model_refuses_what_it_was_shown_is_nearest(
    make_settings: Settings, model: ScriptedModel
) -> None:
    model.scripts = [plan_script(answerable=False)]
    async with serving(create_app(make_settings())) as url:
        answer = await post(url, "one?")
    assert answer["mode"] == "refused"
    assert [page["runbook_id"] for page in answer["nearest"]] == [answer["sources"][0]["runbook_id"]]


async def test_the_model_may_refuse_and_code_writes_the_sentence(make_settings: Settings, model: ScriptedModel) -> None:
    """Pitfall 22: the second gate, and `answerable` without any claim."""
    model.scripts = [plan_script(answerable=False)]
    async with serving(create_app(make_settings())) as url:
        first = await post(url, "one?")
        model.scripts = [plan_script(answerable=True)]
        second = await post(url, "two?")
    for answer in (first, second):
        assert (answer["mode"], answer["answer"], answer["claims"]) == ("refused", REFUSAL, [])
        assert not any(source["cited"] for source in answer["sources"])


async def test_bad_input_names_the_field(make_settings: Settings) -> None:
    async with serving(create_app(make_settings())) as url, httpx.AsyncClient() as client:
        for body, field in (
            ({"question": " "}, "question"),
            ({"question": "x", "k": 99}, "k"),
            ({"question": "x", "nonsense": 1}, "nonsense"),
            ({"question": "x", "wait_for": ["no-uuid"]}, "wait_for.0"),
        ):
            response = await client.post(f"{url}/ask", json=body)
            assert response.status_code == 422
            assert response.json()["field"] == field
        assert (
            await client.post(f"{url}/ask", content=b"{", headers={"content-type": "application/json"})
        ).status_code == 400


async def test_metrics_have_their_names(make_settings: Settings, model: ScriptedModel) -> None:
    async with serving(create_app(make_settings())) as url, httpx.AsyncClient() as client:
        await post(url)
        model.scripts = [GOOD]
        metrics = (await client.get(f"{url}/metrics")).text
    for line in (
        'cairn_requests_total{outcome="full"} 1.0',
        "# TYPE cairn_llm_failures_total counter",
        'cairn_cache_events_total{result="miss"} 1.0',
        "cairn_request_seconds_count",
        "cairn_retrieval_seconds_count 1.0",
        "cairn_llm_seconds_count 1.0",
        "cairn_circuit_state 0.0",
    ):
        assert line in metrics
