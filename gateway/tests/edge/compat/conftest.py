"""The clients that other programs use, unchanged, against a running gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import httpx2
import openai
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from cairn_gateway.settings import GatewaySettings

Json = dict[str, Any]
Start = Callable[[GatewaySettings], AbstractAsyncContextManager[httpx.AsyncClient]]

ANSWER: Json = {
    "answer": (
        "> *In the model's words:* Begin with the pod.\n\n"
        "**[Redis, down, Step 2]**\n\nRestart the pod.\n\n"
        "**[Redis, down, Step 3]**\n\n```sh\nkubectl rollout restart deploy/redis\n```\n\n"
        "Reported by events, not by a runbook:\n\n**[deployment: Deploy of redis]**\n\n> It was deployed at noon."
    ),
    "mode": "full",
    "claims": [
        {"text": "Begin with the pod.", "origin": "model"},
        {
            "text": "Restart the pod.",
            "citations": [
                {"runbook_id": "redis-down", "title": "Redis, down", "step": 2, "marker": "[Redis, down, Step 2]"}
            ],
        },
        {
            "text": "```sh\nkubectl rollout restart deploy/redis\n```",
            "citations": [
                {"runbook_id": "redis-down", "title": "Redis, down", "step": 3, "marker": "[Redis, down, Step 3]"}
            ],
        },
        {
            "text": "It was deployed at noon.",
            "origin": "event",
            "citations": [
                {"runbook_id": "deploy-7", "title": "Deploy of redis", "step": 1, "marker": "[deployment: Deploy of redis]"}
            ],
        },
    ],
    "sources": [
        {
            "runbook_id": "redis-down", "title": "Redis, down", "step": 2, "label": "2", "section": "Fix", "cited": True,
            "score": 0.9, "path": "redis/down.md", "lines": [7, 9], "url": "https://git.example.com/redis/down.md",
            "content": "Restart the pod.",
            "commands": [
                {"text": "kubectl -n <ns> rollout restart deploy/redis", "safety": "changes state", "unfilled": ["<ns>"]}
            ],
        },
        {
            "runbook_id": "redis-down", "title": "Redis, down", "step": 3, "label": "3", "section": "Fix", "cited": True,
            "score": 0.8,
        },
        {
            "runbook_id": "deploy-7", "kind": "deployment", "title": "Deploy of redis", "step": 1, "label": "1",
            "section": "", "cited": True, "score": 0.4,
        },
        {
            "runbook_id": "mongo-down", "title": "Mongo", "step": 1, "label": "1", "section": "", "score": 0.1,
            "commands": [{"text": "mongosh", "safety": "changes state"}],
        },
    ],
    "request_id": "r-1",
}  # fmt: skip


@pytest.fixture
def answer() -> Json:
    """A whole answer: the model's words, two parts of a runbook, one of an event."""
    return ANSWER


@pytest.fixture
async def ai(client: httpx.AsyncClient) -> AsyncIterator[openai.AsyncOpenAI]:
    """OpenAI's client, with the gateway's address and key."""
    async with connected(client) as opened:
        yield opened


def connected(client: httpx.AsyncClient, **options: Any) -> openai.AsyncOpenAI:
    key = client.headers["authorization"].removeprefix("Bearer ")
    base_url = str(client.base_url).rstrip("/") + "/v1"
    return openai.AsyncOpenAI(**{"base_url": base_url, "api_key": key, "max_retries": 0, **options})


ConnectAi = Callable[..., openai.AsyncOpenAI]
ConnectMcp = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def connect_ai() -> ConnectAi:
    """OpenAI's client of a gateway, with options of one's own."""
    return connected


@pytest.fixture
def connect_mcp() -> ConnectMcp:
    """The official MCP client over streamable HTTP; `mode` chooses the age of the protocol."""

    @asynccontextmanager
    async def connect(gateway: httpx.AsyncClient, mode: str = "auto", **headers: str) -> AsyncIterator[Client]:
        sent = {"authorization": gateway.headers["authorization"], **headers}
        url = str(gateway.base_url).rstrip("/") + "/mcp"
        async with (
            httpx2.AsyncClient(headers=sent, timeout=20, trust_env=False) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as opened,
        ):
            yield opened

    return connect
