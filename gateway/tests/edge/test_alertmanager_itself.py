"""Alertmanager and Prometheus themselves (Debian's packages), stopped, cut off and put back, against a running gateway.

At every step Cairn must come to say what Alertmanager's own API says.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from debian_programs import debian_program
from pydantic import SecretStr

from cairn_gateway.settings import GatewaySettings
from cairn_shared import mongo
from cairn_shared.events import Event, decode

Start = Callable[[GatewaySettings], AbstractAsyncContextManager[httpx.AsyncClient]]
TOKEN = "a token for alertmanager"
RESOLVE_AFTER = 3


class Program:
    """A process that can be ended and started again."""

    def __init__(self, command: list[str], port: int) -> None:
        self._command = command
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=10)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not self._ready():
            assert time.monotonic() < deadline, f"{self._command[0]} does not get ready"
            time.sleep(0.05)

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait(20)
            self.process = None

    def send_signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def _ready(self) -> bool:
        try:
            return self.http.get("/-/ready").status_code == 200
        except httpx.HTTPError:
            return False


def free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


@pytest.fixture
async def gateway(start_gateway: Start, gateway_settings: GatewaySettings) -> AsyncIterator[httpx.AsyncClient]:
    settings = gateway_settings.model_copy(update={"alertmanager_token": SecretStr(TOKEN), "inbox": "always"})
    async with start_gateway(settings) as client:
        yield client


@pytest.fixture
def alertmanager(gateway: httpx.AsyncClient, tmp_path: Path) -> Iterator[Program]:
    """It sends everything to the gateway, at once and every second."""
    port = free_port()
    (tmp_path / "alertmanager.yml").write_text(f"""
global: {{resolve_timeout: {RESOLVE_AFTER}s}}
route: {{receiver: cairn, group_by: [alertname], group_wait: 0s, group_interval: 1s, repeat_interval: 1s}}
receivers:
- name: cairn
  webhook_configs:
  - url: {gateway.base_url}/webhooks/alertmanager
    send_resolved: true
    http_config: {{authorization: {{type: Bearer, credentials: {TOKEN}}}}}
""")
    running = Program(
        [
            debian_program("prometheus-alertmanager"),
            f"--config.file={tmp_path / 'alertmanager.yml'}",
            f"--storage.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        ],
        port,
    )
    try:
        # The gateway runs in this loop: it answers nothing meanwhile, and need not.
        running.start()
        yield running
    finally:
        running.stop()
        running.http.close()


@pytest.fixture
def prometheus(alertmanager: Program, tmp_path: Path) -> Iterator[Program]:
    """One alert whose value moves with every evaluation, and one that stands still."""
    port = free_port()
    (tmp_path / "rules.yml").write_text("""
groups:
- name: test
  interval: 1s
  rules:
  - {alert: Moves, expr: vector(time()), labels: {severity: warning}, annotations: {summary: "at {{ $value }}"}}
  - {alert: Stands, expr: vector(1), annotations: {summary: "stands"}}
""")
    (tmp_path / "prometheus.yml").write_text(f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{tmp_path / "rules.yml"}]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["127.0.0.1:{alertmanager.http.base_url.port}"]}}]}}]}}
""")
    running = Program(
        [
            debian_program("prometheus"),
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--rules.alert.resend-delay=1s",
        ],
        port,
    )
    try:
        running.start()
        yield running
    finally:
        running.stop()
        running.http.close()


class Index:
    """What the index comes to: of every document its main part of the highest rank."""

    def __init__(self, database: mongo.Database) -> None:
        self._database = database

    async def alerts(self) -> dict[str, Event]:
        found: dict[str, Event] = {}
        async for one in self._database["inbox"].find({}):
            event = decode(bytes(one["value"]))
            if event.payload["part"] == "":
                present = found.get(event.subject)
                if present is None or _rank(event) > _rank(present):
                    found[event.subject] = event
        return found

    async def agrees(self, alertmanager: Program) -> bool:
        """Cairn shows as firing what Alertmanager shows, with the same words; whatever else it knows is resolved."""
        told = {one["fingerprint"]: one for one in alertmanager.http.get("/api/v2/alerts").json()}
        shown = await self.alerts()
        firing = {subject for subject, event in shown.items() if event.payload["status"] == "firing"}
        return firing == told.keys() and all(
            shown[key].payload["title"].endswith(alert["annotations"]["summary"]) for key, alert in told.items()
        )


def _rank(event: Event) -> tuple[int, int, str]:
    return event.version, event.arrived, str(event.event_id)


@pytest.mark.slow
async def test_cairn_agrees_with_an_alertmanager_that_forgets_fires_again_and_is_restarted(
    alertmanager: Program, database: mongo.Database, eventually: Any
) -> None:
    began = datetime.now(UTC) - timedelta(minutes=5)
    index = Index(database)

    def send(pod: str, summary: str, **more: str) -> None:
        """The same labels and `startsAt` every time: what Alertmanager no longer hears of, it resolves."""
        alert = {
            "labels": {"alertname": "KubePodCrashLooping", "pod": pod, "severity": "warning"},
            "annotations": {"summary": summary, "runbook_url": "https://books.example/crash"},
            "startsAt": began.isoformat(),
            **more,
        }
        answer = alertmanager.http.post("/api/v2/alerts", json=[alert])
        assert answer.status_code == 200, answer.text

    async def agreed(firing: int) -> None:
        async def condition() -> bool:
            told = alertmanager.http.get("/api/v2/alerts").json()
            return len(told) == firing and await index.agrees(alertmanager)

        await eventually(condition, within=15)

    for restarts in range(2):
        for value in ("1 restart", "5 restarts", "3 restarts"):
            send("a", value)
            send("b", "stands")
            await agreed(firing=2)
        await agreed(firing=0)  # heard of no more
        send("a", "3 restarts")  # what was said before, word for word
        await agreed(firing=1)
        send("a", "3 restarts", endsAt=datetime.now(UTC).isoformat())
        await agreed(firing=0)
        if not restarts:
            alertmanager.stop()
            alertmanager.start()
    events = (await index.alerts()).values()
    assert {tuple(event.payload["references"]) for event in events} == {("https://books.example/crash",)}
    assert {event.payload["status"] for event in events} == {"resolved"}


@pytest.mark.slow
async def test_cairn_agrees_with_alertmanager_when_prometheus_is_cut_off_and_put_back(
    alertmanager: Program, prometheus: Program, database: mongo.Database, eventually: Any
) -> None:
    index = Index(database)

    async def titles() -> set[str]:
        return {event.payload["title"] for event in (await index.alerts()).values()}

    async def firing(number: int) -> bool:
        told = alertmanager.http.get("/api/v2/alerts").json()
        shown = [event for event in (await index.alerts()).values() if event.payload["status"] == "firing"]
        return len(told) == len(shown) == number

    await eventually(lambda: firing(2), within=20)
    starts = {event.subject: event.occurred_at for event in (await index.alerts()).values()}
    before = await titles()
    await eventually(lambda: moved(titles, before), within=10)
    prometheus.send_signal(signal.SIGSTOP)  # cut off: it neither says that they fire nor that they are over
    # Standing still, both must come to say the same value, not any of those before.
    await eventually(lambda: index.agrees(alertmanager), within=10)
    await eventually(lambda: firing(0), within=20)
    prometheus.send_signal(signal.SIGCONT)
    await eventually(lambda: firing(2), within=20)
    assert {event.subject: event.occurred_at for event in (await index.alerts()).values()} == starts
    prometheus.stop()
    await eventually(lambda: firing(0), within=20)


async def moved(titles: Callable[[], Any], before: set[str]) -> bool:
    return bool(await titles() - before)
