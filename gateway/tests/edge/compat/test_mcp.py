"""`/mcp` and `cairn mcp` as the official client sees them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import CallToolResult, TextContent

from cairn_gateway.cli.far_knowledge import open_knowledge
from cairn_gateway.cli.target import Target
from cairn_gateway.mcp_server.server import call
from cairn_gateway.mcp_server.tools import TOOLS
from cairn_gateway.settings import GatewaySettings
from cairn_shared.api.ask import AskResponse

if TYPE_CHECKING:
    from gateway.tests.edge.compat.conftest import ConnectMcp
    from gateway.tests.edge.conftest import Upstream

Json = dict[str, Any]
Start = Callable[[GatewaySettings], AbstractAsyncContextManager[httpx.AsyncClient]]
Over = Callable[[httpx.AsyncClient], AbstractAsyncContextManager[Client]]
RUNBOOK = "# Redis is down\n\n## Diagnosis\n\n1. Look at the pod.\n\n## Fix\n\n1. Restart the pod.\n2. Tell the team.\n"
GATE: Json = {
    "best_cosine": 0.7, "best_coverage": 1.0, "identifiers_asked": [], "identifiers_found": [], "routed": False,
    "enough": True,
}  # fmt: skip
HIT: Json = {
    "kind": "runbook", "document_id": "6f1f3f0e-0000-4000-8000-000000000001", "runbook_id": "redis-down",
    "step_id": "6f1f3f0e-0000-4000-8000-000000000002", "source": "wiki", "title": "Redis is down", "step": 2,
    "label": "2", "section": "Fix", "text": "Restart the pod.", "path": "redis/down.md", "line_start": 7,
    "line_end": 7, "version": 3, "content_sha": "c", "score": 0.9, "features": {"cosine": 0.7},
}  # fmt: skip
FOUND: Json = {
    "results": [HIT, {**HIT, "kind": "deployment", "title": "Deploy", "occurred_at": "2026-01-11T02:14:00Z"}],
    "mode": "hybrid", "degraded": ["embedder"], "gate": GATE, "epoch": 1, "fingerprint": None, "timings": {},
}  # fmt: skip
OLDER = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "ask", "arguments": {"question": "w"}}}


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@asynccontextmanager
async def over_stdio(gateway: httpx.AsyncClient, **environment: str) -> AsyncIterator[Client]:
    """`cairn mcp` as a process of its own, as an MCP client starts it."""
    parameters = StdioServerParameters(
        command=str(Path(sys.executable).with_name("cairn")),
        args=["mcp"],
        env={
            "CAIRN_URL": str(gateway.base_url).rstrip("/"),
            "CAIRN_API_KEY": gateway.headers["authorization"].removeprefix("Bearer "),
            **environment,
        },
        cwd="/",
    )
    async with Client(parameters) as opened:
        yield opened


@pytest.fixture(params=["http", "http-2025", "stdio"])
def over(request: pytest.FixtureRequest, connect_mcp: ConnectMcp) -> Over:
    """The ways to a gateway: streamable HTTP with today's protocol and with the one before, and stdio."""
    ways: dict[str, Over] = {
        "http": connect_mcp,
        "http-2025": lambda gateway: connect_mcp(gateway, "legacy"),
        "stdio": over_stdio,
    }
    return ways[request.param]


async def test_the_tools_work_as_they_are_described(
    client: httpx.AsyncClient, upstream: Upstream, answer: Json, over: Over
) -> None:
    await client.put("/runbooks/redis-down", content=RUNBOOK, headers={"content-type": "text/markdown"})
    upstream.answer = {**answer, "mode": "keyword", "degraded": True, "degraded_reason": "embedder_unavailable"}
    upstream.found = FOUND
    async with over(client) as mcp:
        assert mcp.server_info is not None
        assert (mcp.server_info.name, "Cairn answers" in (mcp.instructions or "")) == ("cairn", True)
        tools = {tool.name: tool for tool in (await mcp.list_tools()).tools}
        assert set(tools) == {"ask", "search", "get_runbook"}
        for tool in tools.values():
            assert tool.annotations is not None
            assert (tool.annotations.read_only_hint, tool.annotations.destructive_hint) == (True, False)
            assert tool.description
            assert all("description" in argument for argument in tool.input_schema["properties"].values())
            assert tool.output_schema is not None

        labels = {"pod": "redis-0"}
        asked = await mcp.call_tool(
            "ask",
            {
                "question": "Redis is down",
                "alert_labels": labels,
                "k": 3,
                "service": "redis",
                "earlier_question": "is redis up?",
                "earlier_runbooks": ["redis-down"],
            },
        )
        assert not asked.is_error
        assert AskResponse.model_validate(asked.structured_content).claims[1].citations[0].step == 2
        text = text_of(asked)
        assert text.startswith(answer["answer"])
        assert "embedder unavailable" in text
        label = "  - [changes state] kubectl -n <ns> rollout restart deploy/redis\n  - [fill in] <ns>"
        assert f"- Step 2 of Redis, down\n{label}" in text
        assert "- Redis, down, Step 2; id redis-down (redis/down.md:7-9 https://git.example.com/redis/down.md)" in text
        assert "mongosh" not in text
        sent = upstream.asked[-1]
        assert (sent["alert"]["labels"], sent["k"], sent["filters"]["service"]) == (labels, 3, "redis")
        assert (sent["context"]["question"], sent["context"]["cited"][0]["runbook_id"]) == (
            "is redis up?",
            "redis-down",
        )

        found = await mcp.call_tool("search", {"query": "restart", "kind": "runbook", "since": "2026-01-01T00:00:00Z"})
        assert found.structured_content["results"][0]["lines"] == [7, 7]
        assert "features" not in found.structured_content["results"][0]
        assert "Searched without embedder" in text_of(found)
        assert "## Redis is down, Step 2\nid: redis-down\n\nRestart the pod." in text_of(found)
        assert "## Deploy, deployment, 2026-01-11T02:14:00+00:00" in text_of(found)
        assert (upstream.asked[-1]["filters"]["kind"], upstream.asked[-1]["k"]) == ("runbook", 8)

        runbook = await mcp.call_tool("get_runbook", {"runbook_id": "redis-down"})
        assert [step["number"] for step in runbook.structured_content["steps"]] == [1, 2, 3]
        assert "### Step 3\n" in text_of(runbook)
        assert "Tell the team." in text_of(runbook)


async def test_what_goes_wrong_is_told_to_the_model(client: httpx.AsyncClient, upstream: Upstream, over: Over) -> None:
    async with over(client) as mcp:
        unknown = await mcp.call_tool("get_runbook", {"runbook_id": "nothing"})
        assert (unknown.is_error, "there is no runbook" in text_of(unknown)) == (True, True)
        wrong = await mcp.call_tool("ask", {"question": " ", "k": 99, "nonsense": "my-secret"})
        assert wrong.is_error
        assert text_of(wrong).startswith("question: String should have at least 1 character; k: Input should be less")
        assert "nonsense: Extra inputs are not permitted" in text_of(wrong)
        assert "my-secret" not in text_of(wrong)
        upstream.refusal = (503, {})
        away = await mcp.call_tool("search", {"query": "x"})
        assert (away.is_error, "retriever answered 503" in text_of(away)) == (True, True)
        upstream.refusal, upstream.status = None, 503
        answered = await mcp.call_tool("ask", {"question": "why?"})
        assert (answered.is_error, answered.structured_content["mode"]) == (False, "unavailable")
        with pytest.raises(MCPError, match="there is no tool 'delete_everything'"):
            await mcp.call_tool("delete_everything", {})


@pytest.mark.parametrize("over", ["http", "stdio"], indirect=True)
async def test_a_call_that_is_given_up_cancels_its_question(
    client: httpx.AsyncClient, upstream: Upstream, over: Over
) -> None:
    upstream.hangs = True
    async with over(client) as mcp:
        given_up = asyncio.create_task(mcp.call_tool("ask", {"question": "why?"}))
        async with asyncio.timeout(10):
            await upstream.hanging.wait()
        assert not upstream.left.is_set()
        given_up.cancel()
        async with asyncio.timeout(10):
            await upstream.left.wait()


async def test_an_older_client_that_leaves_cancels_its_question(client: httpx.AsyncClient, upstream: Upstream) -> None:
    """It can only leave: what it would give up by a message of its own reaches no session."""
    upstream.hangs = True
    async with asyncio.timeout(10):
        async with client.stream("POST", "/mcp", json=CALL, headers=OLDER) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            await upstream.hanging.wait()
            assert not upstream.left.is_set()
        await upstream.left.wait()


async def test_only_who_has_a_key_is_answered(
    client: httpx.AsyncClient, start_gateway: Start, gateway_settings: GatewaySettings, connect_mcp: ConnectMcp
) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"accept": "application/json, text/event-stream"}
    listed = await client.post("/mcp", json=body, headers=headers)
    assert listed.status_code == 200
    assert "get_runbook" in listed.text
    for key in ("", "Bearer cairn_wrong"):
        refused = await client.post("/mcp", json=body, headers={**headers, "authorization": key})
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert "get_runbook" not in refused.text
    page = await client.post("/mcp", json=body, headers={**headers, "origin": "https://evil.example.com"})
    assert (page.status_code, "MCP_ALLOWED_ORIGINS" in page.json()["detail"]) == (403, True)
    # Nothing is kept between requests, so there is neither a session to end nor a stream to listen to.
    assert "mcp-session-id" not in listed.headers
    assert [(await client.request(method, "/mcp")).status_code for method in ("GET", "DELETE")] == [405, 405]
    large = await client.post("/mcp", content=b"x" * (1024 * 1024 + 1), headers=headers)
    assert large.status_code == 413
    assert 'route="/mcp",status="200"' in (await client.get("/metrics")).text

    friendly = gateway_settings.model_copy(
        update={"mcp_allowed_origins": "https://a.example.com, https://b.example.com/"}
    )
    async with start_gateway(friendly) as other, connect_mcp(other, origin="https://b.example.com") as mcp:
        assert len((await mcp.list_tools()).tools) == 3


async def test_one_client_is_served_by_many_gateways(
    client: httpx.AsyncClient, start_gateway: Start, gateway_settings: GatewaySettings
) -> None:
    """What begins at one replica goes on at another: there is no session to find again."""
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }  # fmt: skip
    async with start_gateway(gateway_settings) as other:
        assert '"serverInfo"' in (await client.post("/mcp", json=hello, headers=OLDER)).text
        answered = await other.post("/mcp", json=CALL, headers=OLDER)
    data = next(line for line in answered.text.splitlines() if line.startswith("data: {"))
    assert json.loads(data.removeprefix("data: "))["result"]["structuredContent"]["answer"] == "Restart it."


async def test_a_crash_inside_is_told_without_its_text(
    client: httpx.AsyncClient, upstream: Upstream, connect_mcp: ConnectMcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crash(*_: Any) -> Any:
        raise RuntimeError("secret path")

    monkeypatch.setitem(TOOLS, "ask", replace(TOOLS["ask"], run=crash))
    headers = {"x-request-id": "incident-7"}
    async with connect_mcp(client, **headers) as mcp:
        crashed = await mcp.call_tool("ask", {"question": "why?"})
    assert crashed.is_error
    assert "secret" not in text_of(crashed)
    assert "incident-7" in text_of(crashed)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"key": "cairn_wrong"}, "the API key is not valid (set CAIRN_API_KEY"),
        ({"url": "http://127.0.0.1:1"}, "cannot connect to Cairn at http://127.0.0.1:1"),
        ({"url": "http://127.0.0.1:1"}, "start it with `make run`"),
    ],
)
async def test_cairn_mcp_says_what_to_do_when_there_is_no_gateway_or_no_key(
    client: httpx.AsyncClient, change: dict[str, str], said: str
) -> None:
    key = client.headers["authorization"].removeprefix("Bearer ")
    target = replace(Target(str(client.base_url).rstrip("/"), key), **change)  # type: ignore[arg-type]
    async with open_knowledge(target) as knowledge:
        failed = await call(knowledge, "search", {"query": "x"})
    assert failed.is_error
    assert said in text_of(failed)


async def test_cairn_mcp_needs_nothing_of_the_server() -> None:
    code = (
        "import sys; import cairn_gateway.cli.commands.mcp, cairn_gateway.cli.far_knowledge, "
        "cairn_gateway.mcp_server.server; "
        "print([name for name in ('fastapi', 'motor', 'pymongo', 'redis', 'confluent_kafka') if name in sys.modules])"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert output.decode().strip() == "[]"
