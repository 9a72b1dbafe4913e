"""`/ask` and `/search`: passed on, streamed, cancelled, and answered even when there is no answerer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from cairn_gateway.freshness import Revisions
from cairn_gateway.sse import Frame, frames
from cairn_shared.errors import Unavailable

if TYPE_CHECKING:
    from gateway.tests.edge.conftest import Eventually, StillClock, Upstream

SOURCE = {
    "runbook_id": "redis-oom",
    "title": "Redis",
    "step": 1,
    "label": "1",
    "section": "",
    "revision": 1,
    "cited": True,
    "score": 1.0,
}


def sse(event: str, data: Any) -> bytes:
    return f"event: {event}\ndata: {json.dumps(data)}\n\n".encode()


async def test_a_question_is_passed_on_with_its_ids_and_answered(client: httpx.AsyncClient, upstream: Upstream) -> None:
    body = {"question": "  Why?  ", "k": 3, "filters": {"service": "redis"}, "alert": {"name": "RedisDown"}}
    answer = await client.post("/ask", json=body, headers={"x-request-id": "incident-7"})
    assert answer.json()["answer"] == "Restart it."
    assert (upstream.asked[0]["question"], upstream.asked[0]["k"]) == ("Why?", 3)
    assert upstream.asked[0]["alert"]["name"] == "RedisDown"
    assert upstream.headers[0]["x-request-id"] == "incident-7"
    assert upstream.headers[0]["traceparent"].startswith("00-")
    assert "authorization" not in upstream.headers[0]


async def test_a_newer_revision_of_a_cited_runbook_is_told(client: httpx.AsyncClient, upstream: Upstream) -> None:
    for text in ("Look.", "Look twice."):
        await client.put("/runbooks/redis-oom", json={"title": "Redis", "steps": [text]})
    upstream.answer["sources"] = [SOURCE, {**SOURCE, "runbook_id": "unknown"}, {**SOURCE, "kind": "alert"}]
    pending = [{"runbook_id": "redis-oom", "indexed_revision": 1, "latest_revision": 2}]
    answer = (await client.post("/ask", json={"question": "Why?"})).json()
    assert answer["freshness"]["pending"] == pending
    upstream.frames = [sse("sources", []), sse("done", upstream.answer)]
    streamed = await client.post("/ask", json={"question": "Why?", "stream": True})
    done = streamed.text.split("event: done\ndata: ")[1]
    assert json.loads(done)["freshness"]["pending"] == pending
    upstream.answer["sources"] = [{**SOURCE, "revision": 2}]
    answer = (await client.post("/ask", json={"question": "Why?"})).json()
    assert answer["freshness"]["pending"] == []


async def test_a_refused_question_is_refused_with_the_answerers_words(
    client: httpx.AsyncClient, upstream: Upstream
) -> None:
    upstream.refusal = (422, {"detail": "min_revision: no such runbook", "field": "min_revision"})
    for stream in (False, True):
        answer = await client.post("/ask", json={"question": "Why?", "stream": stream})
        assert answer.status_code == 422
        assert (answer.json()["detail"], answer.json()["field"]) == ("min_revision: no such runbook", "min_revision")


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_without_an_answerer_the_answer_says_so(
    client: httpx.AsyncClient, upstream: Upstream, status: int
) -> None:
    upstream.status = status
    answer = await client.post("/ask", json={"question": "Why?"})
    assert answer.status_code == 200
    assert (answer.json()["mode"], answer.json()["degraded"]) == ("unavailable", True)
    assert answer.json()["degraded_reason"] == f"answerer answered {status}"
    streamed = await client.post("/ask", json={"question": "Why?", "stream": True})
    assert streamed.status_code == 200
    assert json.loads(streamed.text.removeprefix("event: done\ndata: "))["mode"] == "unavailable"


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answerer_that_is_only_busy_is_told_with_the_time_to_ask_again(
    client: httpx.AsyncClient, upstream: Upstream, stream: bool
) -> None:
    upstream.busy = "3"
    answer = await client.post("/ask", json={"question": "Why?", "stream": stream})
    assert (answer.status_code, answer.json()["title"], answer.headers["retry-after"]) == (503, "Too busy", "3")
    assert answer.headers["content-type"] == "application/problem+json"


async def test_the_time_that_is_left_is_passed_on(client: httpx.AsyncClient, upstream: Upstream) -> None:
    await client.post("/ask", json={"question": "Why?"})
    await client.post("/ask", json={"question": "Why?"}, headers={"x-deadline-ms": "4000"})
    await client.post("/ask", json={"question": "Why?"}, headers={"x-deadline-ms": "9000000"})
    whole, fewer, more = (int(headers["x-deadline-ms"]) for headers in upstream.headers)
    assert 15_000 < whole < 20_000
    assert fewer < 4_000
    assert 15_000 < more < 20_000


async def test_a_silent_answerer_is_given_up_at_the_deadline(client: httpx.AsyncClient, upstream: Upstream) -> None:
    upstream.hangs = True
    begun = asyncio.get_running_loop().time()
    answer = await client.post("/ask", json={"question": "Why?"}, headers={"x-deadline-ms": "800"})
    assert (answer.status_code, answer.json()["mode"]) == (200, "unavailable")
    assert asyncio.get_running_loop().time() - begun < 3


async def test_a_stream_that_breaks_off_ends_with_an_honest_done(
    client: httpx.AsyncClient, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken() -> Any:
        yield sse("sources", [])
        raise RuntimeError("the answerer crashed")

    monkeypatch.setattr(upstream, "_frames", broken)
    streamed = await client.post("/ask", json={"question": "Why?", "stream": True})
    assert streamed.text.startswith("event: sources")
    assert '"mode":"unavailable"' in streamed.text.split("event: done")[1]


async def test_events_are_streamed_as_they_come_and_a_client_that_leaves_cancels_the_question(
    client: httpx.AsyncClient, upstream: Upstream
) -> None:
    upstream.frames = [sse("sources", [SOURCE]), sse("claim", {"text": "Restart it."})]
    upstream.endless = True
    async with client.stream("POST", "/ask", json={"question": "Why?", "stream": True}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        received = b""
        async for chunk in response.aiter_bytes():
            received += chunk
            if b"event: claim" in received:
                break
        assert not upstream.stream_cancelled.is_set()
    async with asyncio.timeout(5):
        await upstream.stream_cancelled.wait()


async def test_a_client_that_leaves_cancels_a_question_that_is_not_streamed(
    client: httpx.AsyncClient, upstream: Upstream, eventually: Eventually
) -> None:
    upstream.hangs = True
    asked = asyncio.create_task(client.post("/ask", json={"question": "Why?"}))
    async with asyncio.timeout(5):
        await upstream.hanging.wait()
    assert not upstream.left.is_set()
    asked.cancel()
    async with asyncio.timeout(5):
        await upstream.left.wait()

    async def counted() -> bool:
        metrics = (await client.get("/metrics")).text
        return 'cairn_http_requests_total{method="POST",route="/ask",status="499"} 1.0' in metrics

    await eventually(counted)


async def test_a_search_is_passed_on(client: httpx.AsyncClient, upstream: Upstream) -> None:
    answer = await client.post("/search", json={"query": "wal", "mode": "keyword", "k": 2})
    assert (answer.status_code, answer.json()["results"]) == (200, [])
    assert (upstream.asked[0]["query"], upstream.asked[0]["mode"], upstream.asked[0]["k"]) == ("wal", "keyword", 2)
    upstream.refusal = (503, {})
    away = await client.post("/search", json={"query": "wal"})
    assert (away.status_code, away.json()["dependency"]) == (503, "retriever")
    assert "retry-after" in away.headers


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
async def test_frames_are_whole_however_the_stream_is_cut(size: int) -> None:
    text = sse("sources", [1]) + b": comment\r\n\r\n" + b"event: done\r\ndata: a\r\ndata: b\r\n\r\n" + b"data: cut"

    async def chunks() -> Any:
        for start in range(0, len(text), size):
            yield text[start : start + size]

    found = [frame async for frame in frames(chunks())]
    assert b"".join(frame.raw for frame in found) == text
    assert [(frame.event, frame.data) for frame in found] == [
        ("sources", b"[1]"),
        ("message", b""),
        ("done", b"a\nb"),
        ("message", b"cut"),
    ]


def test_a_frame_of_ours_reads_back() -> None:
    frame = Frame.of("done", {"a": "line\nbreak"})
    assert (frame.event, json.loads(frame.data)) == ("done", {"a": "line\nbreak"})


class CountingStore:
    """Heads with one revision; counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.revision = 1
        self.away = False

    async def find_heads(self, runbook_ids: Iterable[str]) -> dict[str, Any]:
        self.asked.append(list(runbook_ids))
        if self.away:
            raise Unavailable("mongo")
        return {name: SimpleNamespace(revision=self.revision) for name in self.asked[-1]}


async def test_revisions_are_asked_for_now_and_then_not_for_each_answer(clock: StillClock) -> None:
    store = CountingStore()
    revisions = Revisions(store, clock)  # type: ignore[arg-type]
    assert await revisions.latest(["a"]) == {"a": 1}
    store.revision = 2
    assert await revisions.latest(["a", "b"]) == {"a": 1, "b": 2}
    assert store.asked == [["a"], ["b"]]
    clock.advance(1)
    assert await revisions.latest(["a"]) == {"a": 2}


async def test_a_write_of_this_gateway_is_known_at_once_and_no_slower_read_undoes_it(clock: StillClock) -> None:
    store = CountingStore()
    revisions = Revisions(store, clock)  # type: ignore[arg-type]
    assert await revisions.latest(["a"]) == {"a": 1}
    revisions.written("a", 2)
    assert await revisions.latest(["a"]) == {"a": 2}

    async def slow(runbook_ids: Iterable[str]) -> dict[str, Any]:
        revisions.written("b", 5)  # while MongoDB is read
        return {name: SimpleNamespace(revision=4) for name in runbook_ids}

    store.find_heads = slow  # type: ignore[method-assign]
    assert await revisions.latest(["b"]) == {"b": 5}
    store.find_heads = CountingStore().find_heads  # type: ignore[method-assign]
    clock.advance(1)
    assert await revisions.latest(["b"]) == {"b": 1}, "a restored MongoDB may be behind"


async def test_a_revision_is_pending_right_after_its_write(client: httpx.AsyncClient, upstream: Upstream) -> None:
    await client.put("/runbooks/redis-oom", json={"title": "Redis", "steps": ["Look."]})
    upstream.answer["sources"] = [SOURCE]
    assert (await client.post("/ask", json={"question": "Why?"})).json()["freshness"]["pending"] == []
    await client.put("/runbooks/redis-oom", json={"title": "Redis", "steps": ["Look twice."]})
    (pending,) = (await client.post("/ask", json={"question": "Why?"})).json()["freshness"]["pending"]
    assert (pending["indexed_revision"], pending["latest_revision"]) == (1, 2)


async def test_while_mongodb_is_away_answers_do_not_wait_for_it_again_and_again(clock: StillClock) -> None:
    store = CountingStore()
    store.away = True
    revisions = Revisions(store, clock)  # type: ignore[arg-type]
    assert [await revisions.latest(["a"]) for _ in range(3)] == [{}, {}, {}]
    assert len(store.asked) == 1
    store.away = False
    clock.advance(3)
    assert await revisions.latest(["a"]) == {"a": 1}


async def test_an_alert_as_alertmanager_writes_it_has_its_name_from_its_labels(
    client: httpx.AsyncClient, upstream: Upstream
) -> None:
    alert = {"labels": {"alertname": "RedisDown"}, "annotations": {"runbook_url": "https://runbooks/redis"}}
    answer = await client.post("/ask", json={"question": "what now?", "alert": alert | {"status": "firing"}})
    assert answer.status_code == 200, answer.text
    asked = upstream.asked[-1]["alert"]
    assert (asked["name"], asked["runbook_url"]) == ("RedisDown", "https://runbooks/redis")


WEBHOOK = {
    "version": "4",
    "status": "firing",
    "commonLabels": {"alertname": "RedisDown", "namespace": "prod"},
    "commonAnnotations": {"runbook_url": "https://runbooks/redis"},
    "alerts": [
        {"status": "resolved", "labels": {"alertname": "RedisDown", "pod": "redis-0"}},
        {
            "status": "firing",
            "labels": {"alertname": "RedisDown", "pod": "redis-1"},
            "annotations": {"summary": "down"},
        },
    ],
}


async def test_a_whole_webhook_body_is_taken_as_its_first_firing_alert(
    client: httpx.AsyncClient, upstream: Upstream
) -> None:
    answer = await client.post("/ask", json={"question": "what now?", "alert": WEBHOOK})
    assert answer.status_code == 200, answer.text
    asked = upstream.asked[-1]["alert"]
    assert asked["labels"] == {"alertname": "RedisDown", "namespace": "prod", "pod": "redis-1"}
    assert (asked["name"], asked["runbook_url"]) == ("RedisDown", "https://runbooks/redis")
    assert asked["annotations"]["summary"] == "down"


@pytest.mark.parametrize("alert", [{}, {"labels": {}}, {"receiver": "pager"}, {"alerts": []}, {"name": ""}])
async def test_an_alert_that_says_nothing_is_refused_by_name(client: httpx.AsyncClient, alert: dict[str, Any]) -> None:
    answer = await client.post("/ask", json={"question": "what now?", "alert": alert})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["field"] == "alert"
    assert error["message"].startswith(
        ("has no name, labels, annotations or runbook_url: give", "the list holds no alert")
    )
