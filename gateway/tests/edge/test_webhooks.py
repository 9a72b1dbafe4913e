"""The routes of sources on a running gateway: what is refused, what is kept, what reaches Kafka."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import hmac
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from pydantic import SecretStr

from cairn_gateway.settings import GatewaySettings
from cairn_gateway.sources.logs import otlp
from cairn_local.migrate import create_topics
from cairn_shared import mongo
from cairn_shared.events import TOPIC_EVENTS, TOPIC_REPO_CHANGES, Event, decode

PAYLOADS = Path(__file__).parents[1] / "sources" / "payloads"
SECRET = "a webhook secret"
TAKEN = (TOPIC_EVENTS, TOPIC_REPO_CHANGES)
PARTITIONS = 3
Start = Callable[[GatewaySettings], AbstractAsyncContextManager[httpx.AsyncClient]]


def golden(name: str) -> bytes:
    return (PAYLOADS / f"{name}.json").read_bytes()


def sign(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def github(body: bytes, event: str = "push", **more: str) -> dict[str, str]:
    return {
        "x-github-event": event,
        "x-github-delivery": str(uuid.uuid4()),
        "x-hub-signature-256": f"sha256={sign(body)}",
        "content-type": "application/json",
        **more,
    }


@pytest.fixture
def source_settings(gateway_settings: GatewaySettings) -> GatewaySettings:
    kept = {"cleanup.policy": "delete"}
    create_topics(gateway_settings, [NewTopic(name, PARTITIONS, 1, config=kept) for name in TAKEN])
    secret = SecretStr(SECRET)
    return gateway_settings.model_copy(
        update={
            "github_webhook_secret": secret,
            "gitlab_webhook_token": secret,
            "jira_webhook_secret": secret,
            "alertmanager_token": SecretStr("new token"),
            "alertmanager_token_previous": secret,
            "pagerduty_webhook_secret": secret,
            "allow_local_repos": True,
        }
    )


@pytest.fixture
async def gateway(start_gateway: Start, source_settings: GatewaySettings) -> AsyncIterator[httpx.AsyncClient]:
    async with start_gateway(source_settings) as client:
        yield client


def read_events(bootstrap: str, wanted: set[str]) -> dict[str, Event]:
    """The events with these ids, as they stand on Kafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    known = consumer.list_topics(timeout=10).topics  # another test may have made them, with more partitions
    places = [TopicPartition(topic, number, 0) for topic in TAKEN for number in known[topic].partitions]
    found: dict[str, Event] = {}
    ended = 0
    try:
        consumer.assign(places)
        while ended < len(places):
            message = consumer.poll(5)
            assert message is not None, "the broker has no end"
            if message.error():
                ended += 1
                continue
            event = decode(message.value())
            if str(event.event_id) in wanted:
                found[str(event.event_id)] = event
    finally:
        consumer.close()
    return found


SENDERS: list[tuple[str, str, dict[str, str]]] = [
    ("github", "github/push", {"x-github-event": "push"}),
    ("gitlab", "gitlab/issue_open", {"x-gitlab-event": "Issue Hook"}),
    ("jira", "jira/issue_created", {}),
    ("alertmanager", "alertmanager/firing", {}),
    ("pagerduty", "pagerduty/incident_triggered", {}),
]


def proof(source: str, body: bytes) -> dict[str, str]:
    return {
        "github": {"x-hub-signature-256": f"sha256={sign(body)}"},
        "gitlab": {"x-gitlab-token": SECRET},
        "jira": {"x-hub-signature": f"sha256={sign(body)}"},
        "alertmanager": {"authorization": f"Bearer {SECRET}"},
        "pagerduty": {"x-pagerduty-signature": f"v1={sign(body)}"},
    }[source]


async def test_every_source_is_taken_and_its_events_stand_on_kafka(
    gateway: httpx.AsyncClient, kafka_bootstrap: str
) -> None:
    ids: set[str] = set()
    for source, name, headers in SENDERS:
        body = golden(name)
        answer = await gateway.post(f"/webhooks/{source}", content=body, headers={**headers, **proof(source, body)})
        assert answer.status_code == 202, answer.text
        assert answer.json()["event_ids"]
        ids |= set(answer.json()["event_ids"])
    found = await asyncio.to_thread(read_events, kafka_bootstrap, ids)
    assert set(found) == ids
    assert {event.source for event in found.values()} == {"github", "gitlab", "jira", "alertmanager", "pagerduty"}


async def test_a_wrong_proof_is_refused_and_nothing_is_kept(
    gateway: httpx.AsyncClient, database: mongo.Database
) -> None:
    for source, name, headers in SENDERS:
        body = golden(name)
        wrong = {key: value[:-1] + ("0" if value[-1] != "0" else "1") for key, value in proof(source, body).items()}
        for given in (wrong, {"authorization": ""}):
            answer = await gateway.post(f"/webhooks/{source}", content=body, headers={**headers, **given})
            assert answer.status_code == 401
            assert answer.headers["content-type"] == "application/problem+json"
    assert await database["inbox"].count_documents({}) == 0
    metrics = (await gateway.get("/metrics")).text
    for source, _, _ in SENDERS:
        assert f'cairn_deliveries_total{{outcome="refused",source="{source}"}} 2.0' in metrics


async def test_without_a_secret_a_source_is_refused_and_its_setting_named(client: httpx.AsyncClient) -> None:
    for source, name, headers in SENDERS:
        body = golden(name)
        answer = await client.post(f"/webhooks/{source}", content=body, headers={**headers, **proof(source, body)})
        assert answer.status_code == 503
        assert answer.json()["title"] == "Source not configured"
        assert {"github": "GITHUB_WEBHOOK_SECRET", "alertmanager": "ALERTMANAGER_TOKEN"}.get(source, "") in answer.text


async def test_a_redelivery_has_the_same_event_ids(gateway: httpx.AsyncClient) -> None:
    body = golden("github/issues_opened")
    headers = github(body, "issues")
    first = await gateway.post("/webhooks/github", content=body, headers=headers)
    again = await gateway.post("/webhooks/github", content=body, headers=headers)
    assert first.json()["event_ids"] == again.json()["event_ids"]


async def test_pings_and_unknown_types_are_acknowledged_and_counted(gateway: httpx.AsyncClient) -> None:
    for event in ("ping", "star"):
        body = golden(f"github/{'ping' if event == 'ping' else 'star_created'}")
        answer = await gateway.post("/webhooks/github", content=body, headers=github(body, event))
        assert answer.status_code == 202
        assert answer.json()["event_ids"] == []
        assert event in answer.json()["ignored"]
    assert 'cairn_deliveries_total{outcome="ignored",source="github"} 2.0' in (await gateway.get("/metrics")).text


async def test_a_malformed_body_is_refused_with_the_field(gateway: httpx.AsyncClient) -> None:
    for body, status, field in (
        (b"{", 400, "body"),
        (b"\xff", 400, "body"),
        (b"[]", 422, "body"),
        (b'{"ref": "refs/heads/x"}', 422, "repository"),
    ):
        answer = await gateway.post("/webhooks/github", content=body, headers=github(body))
        assert (answer.status_code, answer.json()["field"]) == (status, field)


async def test_bodies_have_their_limits(gateway: httpx.AsyncClient) -> None:
    body = golden("github/push")
    large = body[:-2] + b', "padding": "' + b"x" * (6 * 1024 * 1024) + b'"}'
    taken = await gateway.post("/webhooks/github", content=large, headers=github(large))
    assert taken.status_code == 202
    for path in ("/webhooks/gitlab", "/events", "/v1/logs", "/webhooks/logs"):
        assert (await gateway.post(path, content=large)).status_code == 413


async def test_when_kafka_is_away_the_inbox_keeps_the_events(
    start_gateway: Start, source_settings: GatewaySettings, database: mongo.Database
) -> None:
    away = source_settings.model_copy(update={"kafka_bootstrap_servers": "127.0.0.1:1", "accept_timeout": 0.2})
    body = golden("github/push")
    async with start_gateway(away) as client:
        answer = await client.post("/webhooks/github", content=body, headers=github(body))
        assert answer.status_code == 202
        kept = {str(document["_id"]) async for document in database["inbox"].find({})}
        assert kept == set(answer.json()["event_ids"])


async def test_a_push_to_a_declared_repository_is_marked_under_its_name(
    gateway: httpx.AsyncClient, kafka_bootstrap: str
) -> None:
    declared = {"name": "pay-docs", "url": "https://github.com/acme/payments.git", "branch": "main"}
    answer = await gateway.post("/repos", json=declared)
    assert answer.status_code == 201, answer.text
    body = golden("github/push")
    ids = (await gateway.post("/webhooks/github", content=body, headers=github(body))).json()["event_ids"]
    assert len(ids) == 3
    mark = (await asyncio.to_thread(read_events, kafka_bootstrap, {ids[2]}))[ids[2]]
    assert (mark.type, mark.payload["repository"], mark.payload["branch"]) == ("repo.pushed", "pay-docs", "main")


class TestLogs:
    async def test_lines_plain_or_gzipped_become_templates(
        self, gateway: httpx.AsyncClient, kafka_bootstrap: str
    ) -> None:
        lines = b"\n".join(b"2026-03-05T08:00:%02dZ ERROR pool %d is empty" % (n % 60, n) for n in range(10_000))
        answers = [
            await gateway.post("/webhooks/logs?service=shop", content=lines),
            await gateway.post(
                "/webhooks/logs?service=shop", content=gzip.compress(lines), headers={"content-encoding": "gzip"}
            ),
        ]
        assert [answer.status_code for answer in answers] == [202, 202]
        assert answers[0].json() == answers[1].json()
        ids = answers[0].json()["event_ids"]
        found = await asyncio.to_thread(read_events, kafka_bootstrap, set(ids))
        assert [found[one].payload["count"] for one in ids] == [0, 10_000]
        assert found[ids[0]].subject.startswith("shop/")

    async def test_a_bomb_or_a_broken_stream_is_refused(self, gateway: httpx.AsyncClient) -> None:
        bomb = gzip.compress(b"x" * (100 * 1024 * 1024))
        for body, status in ((bomb, 413), (b"no gzip", 400), (gzip.compress(b"x" * 100_000)[:50], 400)):
            answer = await gateway.post("/webhooks/logs", content=body, headers={"content-encoding": "gzip"})
            assert answer.status_code == status
        assert (
            await gateway.post("/webhooks/logs", content=b"x", headers={"content-encoding": "br"})
        ).status_code == 422

    async def test_lines_need_an_editors_key(self, gateway: httpx.AsyncClient) -> None:
        for path in ("/webhooks/logs", "/v1/logs", "/events"):
            assert (await gateway.post(path, content=b"x", headers={"authorization": ""})).status_code == 401

    async def test_opentelemetrys_exporter_is_served(self, gateway: httpx.AsyncClient, kafka_bootstrap: str) -> None:
        from opentelemetry._logs import LogRecord, SeverityNumber
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
        from opentelemetry.sdk.resources import Resource

        service = f"svc-{uuid.uuid4().hex[:8]}"
        headers = {"authorization": gateway.headers["authorization"]}

        def export() -> None:
            provider = LoggerProvider(Resource.create({"service.name": service}))
            exporter = OTLPLogExporter(endpoint=f"{gateway.base_url}/v1/logs", headers=headers, timeout=5)
            provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
            for number in range(100):
                provider.get_logger("t").emit(
                    LogRecord(
                        timestamp=1772697600_000000000 + number,
                        severity_number=SeverityNumber.WARN,
                        body=f"pool {number} is slow",
                    )
                )
            provider.shutdown()

        await asyncio.to_thread(export)
        assert 'cairn_source_events_total{source="logs",type="log"} 2.0' in (await gateway.get("/metrics")).text

    async def test_otlp_answers_as_the_protocol_says(self, gateway: httpx.AsyncClient) -> None:
        request = ExportLogsServiceRequest()
        records = request.resource_logs.add().scope_logs.add().log_records
        records.add().body.string_value = "one"
        records.add()
        answer = await gateway.post(
            "/v1/logs", content=request.SerializeToString(), headers={"content-type": otlp.PROTOBUF}
        )
        assert (answer.status_code, answer.headers["content-type"]) == (200, otlp.PROTOBUF)
        assert ExportLogsServiceResponse.FromString(answer.content).partial_success.rejected_log_records == 1
        bad = await gateway.post("/v1/logs", content=b"\xff", headers={"content-type": otlp.PROTOBUF})
        assert (bad.status_code, bad.headers["content-type"]) == (400, otlp.PROTOBUF)
        text = await gateway.post("/v1/logs", json={"resourceLogs": []})
        assert (text.status_code, text.json()) == (200, {})


async def test_cloud_events_are_taken_in_every_mode(gateway: httpx.AsyncClient) -> None:
    event = {"specversion": "1.0", "id": "1", "source": "/ci", "type": "com.acme.deploy", "data": {"title": "x"}}
    structured = await gateway.post(
        "/events", content=json.dumps(event), headers={"content-type": "application/cloudevents+json"}
    )
    batch = await gateway.post(
        "/events", content=json.dumps([event]), headers={"content-type": "application/cloudevents-batch+json"}
    )
    binary = await gateway.post(
        "/events",
        json=event["data"],
        headers={"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/ci", "ce-type": "com.acme.deploy"},
    )
    assert [one.status_code for one in (structured, batch, binary)] == [202, 202, 202]
    assert structured.json() == batch.json() == binary.json()
    bad = await gateway.post("/events", json={})
    assert (bad.status_code, bad.json()["field"]) == (422, "ce-specversion")
