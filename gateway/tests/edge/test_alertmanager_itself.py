"""Alertmanager itself, grouping, firing and resolving, against a running gateway."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from cairn_gateway.settings import GatewaySettings
from cairn_shared import mongo
from cairn_shared.events import Event, decode

Start = Callable[[GatewaySettings], AbstractAsyncContextManager[httpx.AsyncClient]]
PROGRAM = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
TOKEN = "a token for alertmanager"

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Alertmanager on the PATH (Debian: prometheus-alertmanager)")


@pytest.fixture
async def gateway(start_gateway: Start, gateway_settings: GatewaySettings) -> AsyncIterator[httpx.AsyncClient]:
    settings = gateway_settings.model_copy(update={"alertmanager_token": SecretStr(TOKEN), "inbox": "always"})
    async with start_gateway(settings) as client:
        yield client


@pytest.fixture
async def alertmanager(gateway: httpx.AsyncClient, tmp_path: Path, eventually: Any) -> AsyncIterator[httpx.AsyncClient]:
    """It sends everything to the gateway, at once."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port = opened.getsockname()[1]
    (tmp_path / "alertmanager.yml").write_text(f"""
route: {{receiver: cairn, group_by: [alertname], group_wait: 0s, group_interval: 1s, repeat_interval: 2s}}
receivers:
- name: cairn
  webhook_configs:
  - url: {gateway.base_url}/webhooks/alertmanager
    send_resolved: true
    http_config: {{authorization: {{type: Bearer, credentials: {TOKEN}}}}}
""")
    assert PROGRAM is not None
    process = subprocess.Popen(
        [
            PROGRAM,
            f"--config.file={tmp_path / 'alertmanager.yml'}",
            f"--storage.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:

            async def ready() -> bool:
                try:
                    return (await client.get("/-/ready")).status_code == 200
                except httpx.HTTPError:
                    return False

            await eventually(ready, within=20)
            yield client
    finally:
        process.terminate()
        process.wait(10)


async def events_of(database: mongo.Database) -> list[Event]:
    return [decode(bytes(one["value"])) async for one in database["inbox"].find({})]


async def test_a_group_fires_repeats_and_resolves_as_documents_with_a_life(
    gateway: httpx.AsyncClient, alertmanager: httpx.AsyncClient, database: mongo.Database, eventually: Any
) -> None:
    began = datetime.now(UTC) - timedelta(minutes=5)

    def alert(pod: str, **more: str) -> dict[str, Any]:
        return {
            "labels": {"alertname": "KubePodCrashLooping", "pod": pod, "severity": "warning"},
            "annotations": {"summary": f"Pod {pod} is crash looping", "runbook_url": "https://books.example/crash"},
            "startsAt": began.isoformat(),
            **more,
        }

    sent = await alertmanager.post("/api/v2/alerts", json=[alert("a"), alert("b")])
    assert sent.status_code == 200, sent.text

    async def both_fire() -> bool:
        return len({event.subject for event in await events_of(database)}) == 2

    await eventually(both_fire, within=15)
    resolved = await alertmanager.post("/api/v2/alerts", json=[alert("a", endsAt=datetime.now(UTC).isoformat())])
    assert resolved.status_code == 200

    async def one_resolved() -> bool:
        return any(event.payload["status"] == "resolved" for event in await events_of(database))

    await eventually(one_resolved, within=15)
    events = await events_of(database)
    states = [event for event in events if event.payload["part"] == ""]
    latest = {
        subject: max((e for e in states if e.subject == subject), key=lambda e: e.version)
        for subject in {e.subject for e in states}
    }
    assert sorted(event.payload["status"] for event in latest.values()) == ["firing", "resolved"]
    # Repetitions of a group are the same events: two alerts, one of them in two states, two parts each.
    assert len(events) == 6
    assert {tuple(event.payload["references"]) for event in states} == {("https://books.example/crash",)}
    assert len({event.payload["part"] for event in events} - {""}) == 1
    metrics = (await gateway.get("/metrics")).text
    assert 'cairn_deliveries_total{outcome="refused",source="alertmanager"}' not in metrics
