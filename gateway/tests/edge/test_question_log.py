"""What is kept of questions: by whom, how they were answered, what was said of it; and that no answer waits for it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from cairn_gateway.caller import Caller
from cairn_gateway.metrics import Metrics
from cairn_gateway.questions.record import Asked, document_of, shape
from cairn_gateway.questions.recorder import Recorder, RecordPolicy
from cairn_gateway.settings import GatewaySettings
from cairn_shared.api.ask import AskRequest
from cairn_shared.clock import SystemClock
from cairn_shared.errors import Unavailable

if TYPE_CHECKING:
    from gateway.tests.edge.conftest import Eventually, Start, Upstream

NOW = datetime(2026, 5, 1, tzinfo=UTC)
CITED = {"runbook_id": "redis", "title": "Redis", "step": 3, "label": "3", "section": "", "score": 0.9, "cited": True}
NEAR = {"runbook_id": "mysql", "title": "MySQL is down"}


def asked(question: str = "what now?", answer: bytes | None = None, **more: Any) -> Asked:
    who = Caller("ada", "k1", "/ask")
    return Asked(AskRequest(question=question), who, "r1", "00-" + "a" * 32 + "-b-01", NOW, 0.25, answer, **more)


async def test_questions_are_kept_with_what_was_said_of_them_and_refusals_are_counted(
    client: httpx.AsyncClient, upstream: Upstream, eventually: Eventually
) -> None:
    upstream.answer = {"answer": "Restart it.", "mode": "full", "sources": [CITED], "timings": {"total": 0.2}}
    good = await client.post(
        "/ask", json={"question": "redis? password=hunter2hunter2"}, headers={"x-request-id": "q-1"}
    )
    assert good.status_code == 200
    said = {"verdict": "wrong", "note": "it is the disk", "request_id": "q-1"}
    assert (await client.post("/feedback", json=said)).status_code == 201
    upstream.answer = {"answer": "I don't have a runbook covering that", "mode": "refused", "nearest": [NEAR]}
    for question in ("Is the printer on fire?", "is on fire the printer"):
        await client.post("/ask", json={"question": question})

    async def kept() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await client.get("/questions")).json()["questions"]
        return found if len(found) == 3 else []

    newest, _, first = await eventually(kept)
    assert (newest["mode"], newest["nearest"]) == ("refused", [NEAR])
    assert (first["user_id"], first["via"], first["request_id"]) == ("bootstrap", "/ask", "q-1")
    assert "hunter2" not in first["question"]
    assert [(step["runbook_id"], step["step"]) for step in first["cited"]] == [("redis", 3)]
    assert first["timings"] == {"total": 0.2}
    assert [one["verdict"] for one in first["feedback"]] == ["wrong"]
    (gap,) = (await client.get("/questions/gaps")).json()["gaps"]
    assert (gap["count"], gap["users"], gap["nearest"]) == (2, 1, [NEAR])
    only = (await client.get("/questions", params={"runbook_id": "redis"})).json()["questions"]
    assert [one["request_id"] for one in only] == ["q-1"]


async def test_a_stream_is_kept_by_its_last_word(
    client: httpx.AsyncClient, upstream: Upstream, eventually: Eventually
) -> None:
    upstream.frames = [b"event: sources\ndata: []\n\n", b'event: done\ndata: {"answer": "A.", "mode": "full"}\n\n']
    await client.post("/ask", json={"question": "streamed?", "stream": True})
    upstream.busy = "2"
    assert (await client.post("/ask", json={"question": "busy?"})).status_code == 503

    async def modes() -> list[str]:
        found = (await client.get("/questions")).json()["questions"]
        return sorted(one["mode"] for one in found) if len(found) == 2 else []

    assert await eventually(modes) == ["busy", "full"]


async def test_zero_days_keep_nothing(
    start_gateway: Start, gateway_settings: GatewaySettings, upstream: Upstream
) -> None:
    async with start_gateway(gateway_settings.model_copy(update={"question_log_days": 0.0})) as client:
        await client.post("/ask", json={"question": "secret?"})
        await asyncio.sleep(0.3)
        assert (await client.get("/questions")).json()["questions"] == []


class Away:
    """A store that is away, until it is not."""

    def __init__(self) -> None:
        self.away = True
        self.documents: list[dict[str, Any]] = []

    async def add(self, documents: Any) -> None:
        if self.away:
            raise Unavailable("mongo")
        self.documents += documents


async def test_a_store_that_is_away_costs_questions_and_nothing_else() -> None:
    metrics, store = Metrics(CollectorRegistry()), Away()
    policy = RecordPolicy(waiting=5, tries=1)
    recorder = Recorder(store, SystemClock(), metrics, policy)
    for _ in range(8):
        recorder.record(asked())
    assert metrics.questions.labels("dropped")._value.get() == 3
    task = asyncio.create_task(recorder.run())
    while metrics.questions.labels("dropped")._value.get() < 8:
        await asyncio.sleep(0.01)
    store.away = False
    recorder.record(asked())
    recorder.record(asked(answer=b"no json"))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [one["mode"] for one in store.documents] == ["broken", "broken"], "what waits is written at the end"


@pytest.mark.parametrize(
    ("answer", "ended", "mode"),
    [
        (b'{"mode": "full", "sources": [{"runbook_id": "a", "new": 1}], "unknown": {}}', None, "full"),
        (None, "left", "left"),
        (None, None, "broken"),
        (b"[]", None, "broken"),
    ],
)
def test_whatever_came_of_a_question_can_be_kept(answer: bytes | None, ended: Any, mode: str) -> None:
    document = document_of(asked(answer=answer, ended=ended), timedelta(days=2))
    assert (document["mode"], document["expires_at"]) == (mode, NOW + timedelta(days=2))
    assert (document["user_id"], document["trace_id"]) == ("ada", "a" * 32)


def test_questions_that_say_the_same_have_one_shape() -> None:
    assert shape("Is Redis down?") == shape("redis: down, is") != shape("is mysql down")
