"""Who may talk to Cairn's own processes, and how Kafka is spoken to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer
from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from pydantic import SecretStr, ValidationError

from cairn_ingest_consumer.health_server import Calls, HealthServer, serve
from cairn_shared.api.consumer import HaltsAnswer
from cairn_shared.health import Readiness
from cairn_shared.kafka.connection import connection
from cairn_shared.service_token import bearer, proven
from cairn_shared.settings import KafkaSettings, ServiceSettings
from cairn_shared.web.service import create_service

TOKEN, OLD = "t" * 32, "o" * 32


@asynccontextmanager
async def nothing(_: FastAPI) -> AsyncIterator[None]:
    yield


def settings(token: str | None = TOKEN) -> ServiceSettings:
    previous = SecretStr(OLD) if token else None
    return ServiceSettings(port=0, service_token=SecretStr(token) if token else None, service_token_previous=previous)


CALLERS = [
    ({}, False),
    ({"authorization": "Bearer x"}, False),
    ({"authorization": TOKEN}, False),
    ({"authorization": f"Bearer {TOKEN}x"}, False),
    ({"authorization": "Bearer é"}, False),
    (bearer(SecretStr(TOKEN)), True),
    (bearer(SecretStr(OLD)), True),
]


@pytest.mark.parametrize(("headers", "served"), CALLERS)
async def test_an_internal_service_serves_who_has_the_token(headers: dict[str, str], served: bool) -> None:
    app = create_service("t", settings(), Readiness(), CollectorRegistry(), lifespan=nothing, internal=True)

    @app.post("/search")
    async def search() -> str:
        return "found"

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://t") as client:
        answer = await client.post("/search", headers=raw)
        assert answer.status_code == (200 if served else 401)
        if not served:
            assert answer.headers["content-type"] == "application/problem+json"
            assert TOKEN not in answer.text
            for path in ("/docs", "/openapi.json", "/nowhere"):
                assert (await client.get(path, headers=raw)).status_code == 401, path
        for path in ("/health", "/health/ready", "/metrics"):
            assert (await client.get(path, headers=raw)).status_code == 200, path


@pytest.mark.parametrize(("headers", "served"), CALLERS)
async def test_the_calls_of_the_consumer_want_the_token(headers: dict[str, str], served: bool) -> None:
    async def halts(_: bytes) -> HaltsAnswer:
        return HaltsAnswer(halts=[])

    server = HealthServer("c", "1", Readiness(), CollectorRegistry(), lambda sent: proven(sent, settings()))
    server.calls = Calls({("GET", "/halts"): halts})
    async with serve(server, "127.0.0.1", 0) as port, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        assert (await client.get("/halts", headers=raw)).status_code == (200 if served else 401)
        assert (await client.get("/health", headers=raw)).status_code == 200


def test_every_service_but_the_gateway_is_internal() -> None:
    root = Path(__file__).resolve().parents[2]
    for name in ("answerer", "retriever", "embedder"):
        assert "internal=True" in (root / name / "src" / f"cairn_{name}" / "app.py").read_text(), name


def test_without_a_token_nobody_is_asked_for_one() -> None:
    assert proven("", settings(None))


WORDS = {"kafka_sasl_username": "u", "kafka_sasl_password": "secret-canary"}
OAUTH = {"kafka_oauth_token_url": "https://127.0.0.1:1/token", "kafka_oauth_scope": "kafka"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"security.protocol": "PLAINTEXT"}),
        (
            {"kafka_security_protocol": "SSL", "kafka_ssl_ca": ""},
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "https"},
        ),
        *[
            (
                {"kafka_security_protocol": "SASL_SSL", "kafka_sasl_mechanism": mechanism, **WORDS},
                {"sasl.mechanism": mechanism, "sasl.username": "u", "sasl.password": "secret-canary"},
            )
            for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
        ],
        (
            {"kafka_security_protocol": "SASL_SSL", "kafka_sasl_mechanism": "OAUTHBEARER", **WORDS, **OAUTH},
            {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "u", "sasl.oauthbearer.scope": "kafka"},
        ),
    ],
)
def test_kafkas_client_takes_what_the_settings_say(
    given: dict[str, str], expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ({"kafka_bootstrap_servers": "127.0.0.1:1"} | given).items():
        monkeypatch.setenv(name.upper(), value)
    read = KafkaSettings()
    config: dict[str, Any] = connection(read)
    assert expected.items() <= config.items()
    assert "secret-canary" not in repr(read)
    Producer({**config, "log_level": 0})  # librdkafka knows every name and value


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"kafka_security_protocol": "SASL_SSL"}, "KAFKA_SASL_MECHANISM"),
        ({"kafka_security_protocol": "SASL_SSL", "kafka_sasl_mechanism": "PLAIN"}, "KAFKA_SASL_USERNAME"),
        (
            {"kafka_security_protocol": "SASL_SSL", "kafka_sasl_mechanism": "OAUTHBEARER", **WORDS},
            "KAFKA_OAUTH_TOKEN_URL",
        ),
    ],
)
def test_what_is_missing_is_named_at_the_start(given: dict[str, str], missing: str) -> None:
    with pytest.raises(ValidationError, match=missing):
        KafkaSettings.model_validate({"kafka_bootstrap_servers": "k:1", **given})
