from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter

from cairn_ingest_consumer import health_server
from cairn_ingest_consumer.health_server import HealthServer, serve
from cairn_shared.health import Readiness


@pytest.fixture
def readiness() -> Readiness:
    return Readiness()


@pytest.fixture
async def port(readiness: Readiness, registry: CollectorRegistry) -> AsyncIterator[int]:
    Counter("seen", "Things seen.", registry=registry).inc()
    async with serve(HealthServer("svc", "1.2", readiness, registry), "127.0.0.1", 0) as bound:
        yield bound


async def get(port: int, path: str, method: str = "GET") -> httpx.Response:
    async with httpx.AsyncClient() as client:
        return await client.request(method, f"http://127.0.0.1:{port}{path}")


async def test_health_ready_and_metrics(port: int, readiness: Readiness) -> None:
    assert (await get(port, "/health")).json() == {"status": "ok", "service": "svc", "version": "1.2"}
    assert (await get(port, "/health/ready?x=1")).status_code == 200
    assert "seen_total 1.0" in (await get(port, "/metrics")).text

    async def broken() -> None:
        raise ConnectionError("postgres://user:secret@host")

    readiness.register("postgres", broken)
    answer = await get(port, "/health/ready")
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["failures"] == {"postgres": "ConnectionError"}
    assert "secret" not in answer.text


async def test_other_paths_and_methods_are_refused(port: int) -> None:
    assert (await get(port, "/")).status_code == 404
    assert (await get(port, "/health", "POST")).status_code == 405


@pytest.mark.parametrize(
    "junk", [b"\r\n\r\n", b"nonsense\r\n\r\n", b"GET\r\n\r\n", b"\xff\xfe\r\n\r\n", b"x" * 100_000, b""]
)
async def test_junk_harms_nobody(port: int, junk: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(junk)
    writer.write_eof()
    await reader.read()
    writer.close()
    assert (await get(port, "/health")).status_code == 200


async def test_a_client_that_says_nothing_is_let_go(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_server, "REQUEST_TIMEOUT", 0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
