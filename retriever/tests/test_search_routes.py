"""Alerts lead to their runbook before any vector is consulted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from retriever_corpus import BagEmbedder, Document, write

if TYPE_CHECKING:
    from retriever_corpus import Search

    from cairn_shared.postgres import Pool

GOLD = Document(
    "gold",
    "When pods restart all the time",
    ["Read the logs of the last run.", "Roll back."],
    alerts=["KubePodCrashLooping"],
    links=["https://runbooks.example/kube/KubePodCrashLooping"],
    path="kubernetes/crash-loops.md",
)
BY_TITLE = Document("titled", "etcdNoLeader", ["Count the members."], path="etcd/no-leader.md")
BY_FILE = Document("filed", "Clock skew", ["Look at chrony."], path="node/NodeClockSkewDetected.md")
RIVALS = [
    Document(f"rival-{i}", "Kube Pod Crash Looping", ["Pod is crash looping, kubernetes restarts it."])
    for i in range(6)
]


@pytest.fixture(autouse=True)
async def _corpus(pool: Pool) -> None:
    await write(pool, [GOLD, BY_TITLE, BY_FILE, *RIVALS])


ALERT = {
    "labels": {"alertname": "KubePodCrashLooping", "namespace": "shop", "pod": "web-0"},
    "annotations": {"description": "Pod shop/web-0 is crash looping."},
}


@pytest.mark.parametrize(
    ("query", "gold"),
    [
        ("KubePodCrashLooping", "gold"),
        ("kubepodcrashlooping alert", "gold"),
        ("what do I do about KubePodCrashLooping on web-0?", "gold"),
        ("[FIRING:1] KubePodCrashLooping (shop web-0)", "gold"),
        (json.dumps(ALERT), "gold"),
        (f"got this just now: {json.dumps({'alerts': [ALERT]})} help", "gold"),
        ("see https://runbooks.example/kube/KubePodCrashLooping", "gold"),
        ("see HTTPS://runbooks.example/kube/kubepodcrashlooping/#impact", "gold"),
        ("etcdNoLeader is firing", "titled"),
        ("NodeClockSkewDetected", "filed"),
        ("runbook_url: https://elsewhere.example/docs/NodeClockSkewDetected.md", "filed"),
    ],
)
async def test_runbook_of_the_alert_is_first(search: Search, query: str, gold: str) -> None:
    found = await search(query)
    assert found.results[0].runbook_id == gold
    assert found.gate.routed
    assert found.gate.enough


@pytest.mark.parametrize(
    "alert",
    [
        {"name": "KubePodCrashLooping"},
        {"labels": {"alertname": "KubePodCrashLooping"}},
        {"runbook_url": "https://runbooks.example/kube/KubePodCrashLooping"},
        {"annotations": {"runbook_url": "https://runbooks.example/kube/kubepodcrashlooping"}},
    ],
)
async def test_alert_beside_the_question(search: Search, alert: dict[str, object]) -> None:
    found = await search("pods restart, what now?", alert=alert)
    assert found.results[0].runbook_id == "gold"
    assert found.gate.routed


async def test_routing_needs_no_embedder(search: Search, embedder: BagEmbedder) -> None:
    embedder.away = True
    found = await search("KubePodCrashLooping")
    assert found.results[0].runbook_id == "gold"
    assert found.degraded == ["embedder"]


async def test_all_steps_of_the_runbook_are_there(search: Search) -> None:
    found = await search("KubePodCrashLooping")
    assert {hit.step for hit in found.results if hit.runbook_id == "gold"} == {1, 2}


async def test_a_filter_that_excludes_the_runbook_wins(search: Search) -> None:
    found = await search("KubePodCrashLooping", filters={"source": "elsewhere"})
    assert found.results == []
    assert not found.gate.routed


async def test_named_runbooks_are_searched_and_nothing_else(pool: Pool, search: Search) -> None:
    await write(pool, [Document("other", "Pods", ["A pod that is crash looping."])])
    for only in (["other"], ["other", "gone"]):
        found = await search("pod crash looping", filters={"runbooks": only})
        assert {hit.runbook_id for hit in found.results} == {"other"}
    assert not (await search("pod crash looping", filters={"runbooks": ["gone"]})).results
    assert not (await search("pod crash looping", filters={"runbooks": ["other"], "kind": "event"})).results


async def test_an_ordinary_word_does_not_route(pool: Pool, search: Search) -> None:
    await write(pool, [Document("watchdog", "Watchdog", ["Always firing."])])
    assert not (await search("the watchdog of my laptop resets it")).gate.routed
    assert (await search("Watchdog is firing")).gate.routed


async def test_explain_tells_the_route(search: Search) -> None:
    found = await search("KubePodCrashLooping", explain=True)
    assert found.explain is not None
    assert [route["by"] for route in found.explain["routes"]] == ["alert"]
    assert found.results[0].features["routed"] is True
