"""A client that goes away takes its work along; served by a real server, since only that sees it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Sequence

import httpx
import numpy as np
import uvicorn

from cairn_embedder.app import create_app
from cairn_embedder.model import Kind, Tokens, Vector
from cairn_embedder.settings import EmbedderSettings
from cairn_shared.api.embedding import ModelInfo


class HeldEncoder:
    """Embeds only when let go."""

    info = ModelInfo(name="held", revision="1", dimension=2, max_tokens=16, special_tokens=2, fingerprint="held@1")
    tokenizer_json = "{}"

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.seen: list[int] = []

    def tokenize(self, texts: Sequence[str], kind: Kind) -> list[Tokens]:
        return [Tokens((1, len(text), 2), 3) for text in texts]

    def encode(self, batch: Sequence[Sequence[int]]) -> Vector:
        assert self.gate.wait(10)
        self.seen += [ids[1] for ids in batch]
        return np.tile(np.array([1, 0], dtype=np.float32), (len(batch), 1))


async def test_work_of_a_client_that_went_away_is_dropped() -> None:
    encoder = HeldEncoder()
    app = create_app(EmbedderSettings.model_validate({"port": 0}), lambda: encoder)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        task = asyncio.create_task(server.serve([listening]))
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client, asyncio.timeout(20):
            while not server.started or (await client.get("/health/ready")).status_code != 200:
                await asyncio.sleep(0.01)
            encoder.gate.clear()
            running = asyncio.create_task(client.post("/embed", json={"texts": ["a"]}))
            await asyncio.sleep(0.1)
            gone = asyncio.create_task(client.post("/embed", json={"texts": ["bb", "bb b"]}))
            stays = asyncio.create_task(client.post("/embed", json={"texts": ["ccc"]}))
            while 'queue_texts{kind="passage"} 3.0' not in (await client.get("/metrics")).text:
                await asyncio.sleep(0.01)
            gone.cancel()
            while 'queue_texts{kind="passage"} 1.0' not in (await client.get("/metrics")).text:
                await asyncio.sleep(0.01)
            encoder.gate.set()
            assert (await running).status_code == (await stays).status_code == 200
            assert encoder.seen[-2:] == [1, 3]
        server.should_exit = True
        await task
