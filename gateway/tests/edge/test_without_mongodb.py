"""MongoDB stopped under a running gateway: what still works, what says so, and that everything heals by itself."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cairn_gateway.settings import GatewaySettings
from cairn_local.ports import free_port
from cairn_local.programs import Server, signal_group, start
from cairn_local.stores import mongo as secantus

if TYPE_CHECKING:
    from gateway.tests.edge.conftest import Eventually, Start, Upstream


class OwnMongo:
    """A MongoDB of this test's own, that keeps its data when it is killed."""

    def __init__(self, folder: Path) -> None:
        self.output = folder / "mongo.log"
        self.server: Server = secantus.server(folder / "mongo", free_port())
        self.process: Any = None

    async def start(self) -> None:
        self.server.prepare()
        with self.output.open("ab") as output:
            self.process = start(self.server.program, output)
        async with asyncio.timeout(30):
            while True:
                try:
                    return await asyncio.to_thread(self.server.probe)
                except Exception:
                    await asyncio.sleep(0.05)

    def kill(self) -> None:
        if self.process is not None:
            signal_group(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


@pytest.fixture
def own_mongo(tmp_path: Path) -> Iterator[OwnMongo]:
    mongo = OwnMongo(tmp_path)
    yield mongo
    mongo.kill()


async def test_mongodb_may_go_and_come_back(
    start_gateway: Start,
    gateway_settings: GatewaySettings,
    own_mongo: OwnMongo,
    upstream: Upstream,
    eventually: Eventually,
) -> None:
    await own_mongo.start()
    settings = GatewaySettings.model_validate(
        gateway_settings.model_dump()
        | {"mongo_uri": own_mongo.server.address, "mongo_timeout": 1.0, "auth_cache_seconds": 0.0}
    )
    book = {"title": "T", "steps": ["Look."]}
    async with start_gateway(settings) as client:
        await client.put("/runbooks/before", json=book)
        await client.put("/users/mira", json={"name": "Mira"})
        key = (await client.post("/users/mira/keys", json={})).json()["key"]
        reader = {"authorization": f"Bearer {key}"}
        assert (await client.get("/runbooks", headers=reader)).status_code == 200
        upstream.answer["sources"] = []
        own_mongo.kill()

        refused = await client.put("/runbooks/during", json=book)
        assert (refused.status_code, refused.json()["dependency"]) == (503, "mongo")
        assert "retry-after" in refused.headers
        ready = await client.get("/health/ready")
        assert (ready.status_code, list(ready.json()["failures"])) == (503, ["mongo"])
        assert (await client.get("/health")).status_code == 200
        status = (await client.get("/status")).json()
        assert (status["status"], status["runbooks"], status["queues"]) == ("degraded", None, None)
        for _ in range(3):
            started = time.perf_counter()
            answer = await client.post("/ask", json={"question": "Why?"}, headers=reader)
            assert answer.json()["answer"] == "Restart it.", "a key that was good before is still believed"
            assert time.perf_counter() - started < 1.0
        assert (await client.post("/search", json={"query": "why"}, headers=reader)).status_code == 200

        await own_mongo.start()

        async def healed() -> bool:
            return (await client.get("/health/ready")).status_code == 200

        await eventually(healed, within=20)
        assert [item["id"] for item in (await client.get("/runbooks")).json()["runbooks"]] == ["before"]
        assert (await client.put("/runbooks/after", json=book)).status_code == 201

        async def relayed() -> bool:
            return bool((await client.get("/status")).json()["queues"]["outbox"]["pending"] == 0)

        await eventually(relayed, within=20)
