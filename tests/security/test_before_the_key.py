"""What anybody who reaches a port can do before they prove anything: memory, connections, keys, pages."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx
import pytest
import uvicorn
from fastapi import Body, FastAPI, Request
from prometheus_client import CollectorRegistry

from cairn_gateway.auth import Authenticator, AuthPolicy, hash_key
from cairn_gateway.failed_keys import FailedKeyPolicy, FailedKeys
from cairn_gateway.mcp_server.endpoint import ToolEndpoint
from cairn_gateway.model import Principal, Role
from cairn_shared.clock import SystemClock
from cairn_shared.errors import TooManyRequests, Unauthenticated
from cairn_shared.health import Readiness
from cairn_shared.settings import ServiceSettings
from cairn_shared.web.protocol import ConnectionPolicy, bounded_protocol
from cairn_shared.web.service import create_service

MEBIBYTE = 1024 * 1024


@asynccontextmanager
async def nothing(_: FastAPI) -> AsyncIterator[None]:
    yield


def service(**settings: Any) -> FastAPI:
    app = create_service(
        "t",
        ServiceSettings(port=0, **settings),
        Readiness(),
        CollectorRegistry(),
        lifespan=nothing,
        max_body_bytes=10 * MEBIBYTE,
    )

    @app.post("/raw")
    async def raw(request: Request) -> int:
        return len(await request.body())

    @app.post("/json")
    async def parsed(body: Annotated[list[int], Body()]) -> int:
        return len(body)

    return app


def client(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://t", headers={"content-type": "application/json"}
    )


@pytest.mark.parametrize("path", ["/raw", "/json"])
async def test_bodies_together_stay_within_their_memory(path: str) -> None:
    """Three senders of 0.4 MiB each, none of whom ends: the third is told to come again, and so only while they do."""
    goes_on, arrived = asyncio.Event(), asyncio.Semaphore(0)

    async def content() -> AsyncIterator[bytes]:
        yield b"[" + b" " * (MEBIBYTE * 2 // 5)
        arrived.release()
        await goes_on.wait()
        yield b"1]"

    async with client(service(bodies_mib=1)) as caller:
        held = [asyncio.create_task(caller.post(path, content=content())) for _ in range(2)]
        for _ in held:
            await arrived.acquire()
        refused = await caller.post(path, content=b"[" + b" " * (MEBIBYTE * 2 // 5) + b"1]")
        assert (refused.status_code, refused.headers["content-type"]) == (503, "application/problem+json")
        assert int(refused.headers["retry-after"]) >= 1
        goes_on.set()
        assert [(await one).status_code for one in held] == [200, 200]
        assert (await caller.post(path, content=b"[" + b" " * (MEBIBYTE * 2 // 5) + b"1]")).status_code == 200


@pytest.mark.parametrize("path", ["/raw", "/json"])
async def test_a_body_over_the_limit_without_a_length_is_413_on_every_route(path: str) -> None:
    async def content() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b" " * MEBIBYTE

    async with client(service()) as caller:
        assert (await caller.post(path, content=content())).status_code == 413


async def test_every_answer_tells_a_browser_to_do_nothing_with_it() -> None:
    async with client(service()) as caller:
        for path in ("/health", "/nowhere", "/docs", "/openapi.json"):
            headers = (await caller.get(path)).headers
            assert "frame-ancestors 'none'" in headers["content-security-policy"], path
            assert "default-src 'none'" in headers["content-security-policy"], path
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(("docs", "status"), [(True, 200), (False, 404)])
async def test_the_pages_of_the_api_are_a_setting(docs: bool, status: int) -> None:
    async with client(service(api_docs=docs)) as caller:
        for path in ("/docs", "/redoc", "/openapi.json"):
            assert (await caller.get(path)).status_code == status, path


@asynccontextmanager
async def served(policy: ConnectionPolicy) -> AsyncIterator[int]:
    config = uvicorn.Config(service(), port=0, http=bounded_protocol(policy), log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task


Say = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def silent(_: asyncio.StreamWriter) -> None:
    pass


async def half_a_head(writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET /health HTTP/1.1\r\nHost: t\r\nX-Slow: ")


async def half_a_second_head(writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET /health HTTP/1.1\r\nHost: t\r\n\r\nGET /health HTTP/1.1\r\n")


@pytest.mark.parametrize("say", [silent, half_a_head, half_a_second_head])
async def test_a_head_that_does_not_come_ends_the_connection(say: Say) -> None:
    async with served(ConnectionPolicy(head=0.3)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await say(writer)
        async with asyncio.timeout(10):
            with contextlib.suppress(ConnectionError):
                await reader.read()  # to its end
        writer.close()


async def test_one_address_has_so_many_connections_and_gets_them_back() -> None:
    async with served(ConnectionPolicy(per_address=3)) as port:

        async def asks() -> bool:
            try:
                async with httpx.AsyncClient() as caller:
                    return (await caller.get(f"http://127.0.0.1:{port}/health")).status_code == 200
            except httpx.TransportError:
                return False

        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        assert not await asks()
        for _, writer in held:
            writer.close()
        async with asyncio.timeout(10):
            while not await asks():
                await asyncio.sleep(0.01)


class Directory:
    def __init__(self) -> None:
        self.asked = 0

    async def find_key(self, hashed: str) -> Principal | None:
        self.asked += 1
        return Principal("u", Role.READER, "k") if hashed == GOOD_HASH else None


GOOD = "cairn_good"
GOOD_HASH = hash_key(GOOD)


class Held(SystemClock):
    """Whoever sleeps stays until they are let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        del seconds
        await self.go.wait()


async def test_wrong_keys_are_slowed_down_and_good_ones_are_not() -> None:
    clock, directory = Held(), Directory()
    failed = FailedKeys(clock, FailedKeyPolicy(free=2, waiting=3))
    keys = Authenticator(directory, None, clock, AuthPolicy(), failed)
    assert (await keys.authenticate(GOOD, "10.0.0.1")).user_id == "u"
    for _ in range(2):
        with pytest.raises(Unauthenticated):
            await keys.authenticate("wrong", "10.0.0.1")
    waiting = [asyncio.create_task(keys.authenticate(f"wrong {n}", "10.0.0.1")) for n in range(3)]
    await asyncio.sleep(0.01)
    assert not any(task.done() for task in waiting)
    asked = directory.asked
    with pytest.raises(TooManyRequests):
        await keys.authenticate("wrong", "10.0.0.1")
    assert directory.asked == asked, "MongoDB is spared"
    assert (await keys.authenticate(GOOD, "10.0.0.1")).user_id == "u"
    with pytest.raises(Unauthenticated):
        await keys.authenticate("wrong", "10.0.0.2")
    clock.go.set()
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(one, Unauthenticated) for one in ended)


@pytest.mark.parametrize(
    ("allowed", "origin", "may"),
    [
        ("", None, True),
        ("", "", False),
        ("", "null", False),
        ("https://a.example", "", False),
        ("https://a.example,", "", False),
        ("https://a.example", "https://a.example", True),
        ("https://a.example", "https://a.example.evil.example", False),
    ],
)
def test_an_origin_is_listed_or_absent(allowed: str, origin: str | None, may: bool) -> None:
    assert ToolEndpoint(None, allowed).allows(origin) is may  # type: ignore[arg-type]
