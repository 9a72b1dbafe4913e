"""A running gateway over real MongoDB, Redis and Kafka; retriever and answerer are played by one small server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import httpx
import pytest
import structlog
import uvicorn
from prometheus_client import CollectorRegistry
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from cairn_gateway.app import create_app
from cairn_gateway.metrics import Metrics
from cairn_gateway.settings import GatewaySettings
from cairn_shared import mongo
from cairn_shared.api.ask import AskResponse
from cairn_shared.clock import SystemClock
from cairn_shared.runbooks.store import RunbookStore
from cairn_shared.settings import KafkaSettings, MongoSettings

ADMIN_KEY = "bootstrap-key-for-tests"
Json = dict[str, Any]


@pytest.fixture(autouse=True, scope="session")
def _quiet_logs() -> None:
    """The command line runs in this process too: what it prints is all that may stand on its standard output."""
    structlog.configure(
        processors=[structlog.processors.KeyValueRenderer()], logger_factory=structlog.ReturnLoggerFactory()
    )


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[str]:
    """`app` on a free port, in this event loop; its address."""

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    server = Server(uvicorn.Config(app, port=0, log_config=None, ws="none", timeout_graceful_shutdown=1))
    task = asyncio.create_task(server.serve())
    while not server.started:
        if task.done():
            task.result()
            raise RuntimeError("the server did not start")
        await asyncio.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task


def document_id(runbook_id: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, runbook_id)


@dataclass
class Upstream:
    """Retriever and answerer in memory: what they hold is set by the test, what they were asked is kept."""

    url: str = ""
    documents: dict[str, Json] = field(default_factory=dict)
    wrong_vectors: Sequence[str] = ()
    ledger: dict[str, Json] = field(default_factory=dict)
    parts: list[Json] = field(default_factory=list)
    settled: Sequence[Json] = ()
    counts: Sequence[Json] = ()
    found: Json | None = None
    answer: Json = field(default_factory=lambda: {"answer": "Restart it.", "mode": "excerpts"})
    frames: Sequence[bytes] = ()
    endless: bool = False
    stream_cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    hangs: bool = False
    busy: str = ""
    hanging: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    refusal: tuple[int, Json] | None = None
    status: int = 200
    unready: Json = field(default_factory=dict)
    asked: list[Json] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    page: int = 2

    def index(self, runbook_id: str, version: int, content_sha: str, **more: Any) -> None:
        """Put a runbook into the index."""
        self.documents[runbook_id] = {
            "document_id": str(document_id(runbook_id)),
            "source": "runbooks",
            "external_id": runbook_id,
            "kind": "runbook",
            "version": version,
            "deleted": False,
            "content_sha": content_sha,
            "steps": 1,
            "chunks": 1,
            "broken_vectors": 0,
            **more,
        }

    def settle(self, event_id: str, state: str = "searchable", detail: str | None = None) -> None:
        """Write into the ledger."""
        self.ledger[event_id] = {
            "event_id": event_id,
            "state": state,
            "document_id": str(uuid.uuid4()),
            "version": 1,
            "accepted_at": datetime.now(UTC).isoformat(),
            "settled_at": datetime.now(UTC).isoformat(),
            "detail": detail,
        }

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/health/ready", self._ready),
                Route("/index/status", self._status),
                Route("/index/documents", self._documents),
                Route("/index/vectors", self._vectors),
                Route("/index/ledger", self._ledger, methods=["POST"]),
                Route("/index/versions", self._versions, methods=["POST"]),
                Route("/index/events", self._events),
                Route("/index/ingest", self._ingest),
                Route("/search", self._search, methods=["POST"]),
                Route("/ask", self._ask, methods=["POST"]),
            ]
        )

    async def _ready(self, _: Request) -> Response:
        if self.unready:
            return JSONResponse({"failures": self.unready}, 503)
        return JSONResponse({}, self.status)

    async def _status(self, _: Request) -> Response:
        body = {"documents": {"runbook": len(self.documents)}, "steps": 1, "chunks": 1, "epoch": 7}
        return JSONResponse({**body, "fingerprint": "f", "last_indexed_at": None}, self.status)

    async def _documents(self, request: Request) -> Response:
        after = request.query_params.get("after", "")
        rest = sorted((item for item in self.documents.values() if item["document_id"] > after), key=_by_id)
        page, more = rest[: self.page], rest[self.page :]
        return JSONResponse({"documents": page, "next": page[-1]["document_id"] if more else None}, self.status)

    async def _vectors(self, request: Request) -> Response:
        """A page of one chunk for each document, by its id."""
        after = request.query_params.get("after", "")
        rest = sorted((item for item in self.documents.values() if item["document_id"] > after), key=_by_id)
        wrong = {one["external_id"]: 1 for one in rest[:1] if one["external_id"] in self.wrong_vectors}
        last = rest[0]["document_id"] if rest[1:] else None
        return JSONResponse({"checked": len(rest[:1]), "wrong": wrong, "next": last}, self.status)

    async def _ledger(self, request: Request) -> Response:
        wanted = (await request.json())["event_ids"]
        found = [self.ledger[event_id] for event_id in wanted if event_id in self.ledger]
        return JSONResponse({"entries": found}, self.status)

    async def _versions(self, request: Request) -> Response:
        wanted = (await request.json())["document_ids"]
        parts = [part for part in self.parts if part["document_id"] in wanted]
        return JSONResponse({"parts": parts}, self.status)

    async def _events(self, request: Request) -> Response:
        self.asked.append(dict(request.query_params))
        fields = (
            "accepted_at",
            "version",
            "part",
            "detail",
            "document_id",
            "kind",
            "source",
            "subject",
            "service",
            "url",
        )
        known = {"topic": "cairn.events.v1", "settled_at": "2026-05-01T02:00:00Z", "title": "Redis is full"}
        return JSONResponse({"events": [dict.fromkeys(fields) | known | one for one in self.settled]}, self.status)

    async def _ingest(self, request: Request) -> Response:
        self.asked.append(dict(request.query_params))
        return JSONResponse({"counts": [{"seconds": None} | one for one in self.counts]}, self.status)

    async def _search(self, request: Request) -> Response:
        self.asked.append(await request.json())
        self.headers.append(dict(request.headers))
        if self.refusal:
            return JSONResponse(self.refusal[1], self.refusal[0])
        gate: Json = {"best_cosine": None, "best_coverage": 0, "identifiers_asked": [], "identifiers_found": []}
        gate |= {"routed": False, "enough": False}
        if self.found:
            return JSONResponse(self.found, self.status)
        body = {"results": [], "mode": "hybrid", "gate": gate, "epoch": 1, "fingerprint": None, "timings": {}}
        return JSONResponse(body, self.status)

    async def _ask(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        self.headers.append(dict(request.headers))
        if self.refusal:
            return JSONResponse(self.refusal[1], self.refusal[0])
        if self.busy:
            return JSONResponse({}, 503, {"retry-after": self.busy})
        if self.status != 200:
            return JSONResponse({}, self.status)
        if self.hangs:
            self.hanging.set()
            while (await request.receive())["type"] != "http.disconnect":
                pass
            self.left.set()
        if body["stream"]:
            return StreamingResponse(self._frames(), media_type="text/event-stream")
        return JSONResponse(AskResponse.model_validate(self.answer).model_dump(mode="json"))

    async def _frames(self) -> AsyncIterator[bytes]:
        try:
            for frame in self.frames:
                yield frame
                await asyncio.sleep(0.01)
            while self.endless:
                yield b": still here\n\n"
                await asyncio.sleep(0.01)
        except (asyncio.CancelledError, GeneratorExit):
            self.stream_cancelled.set()
            raise


def _by_id(item: Json) -> str:
    return str(item["document_id"])


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    """Retriever and answerer."""
    played = Upstream()
    async with serving(played.app()) as url:
        played.url = url
        yield played


@pytest.fixture
def gateway_settings(
    mongo_settings: MongoSettings, redis_url: str, kafka_settings: KafkaSettings, upstream: Upstream
) -> GatewaySettings:
    """A gateway over fresh stores; no periodic comparison, so that tests see only what they ask for."""
    return GatewaySettings(
        **mongo_settings.model_dump(),
        **kafka_settings.model_dump(),
        redis_url=SecretStr(redis_url),
        retriever_url=upstream.url,
        answerer_url=upstream.url,
        cairn_bootstrap_api_key=SecretStr(ADMIN_KEY),
        reconcile_interval=0,
        console=False,  # NiceGUI has one app in a process
        lease_seconds=1.0,
        # A group of its own and nobody's farewell: the broker of the tests takes seconds for either (stores/tansu.py).
        dlq_group=f"dlq-{uuid.uuid4()}",
        consumer_leave_group=False,
        consumer_session_timeout=2.0,
    )


Start = Callable[[GatewaySettings], AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture
def start_gateway() -> Start:
    """Run a gateway with given settings; the client has the admin's key."""

    @asynccontextmanager
    async def start(settings: GatewaySettings) -> AsyncIterator[httpx.AsyncClient]:
        async with serving(create_app(settings)) as url:
            headers = {"authorization": f"Bearer {ADMIN_KEY}"}
            async with httpx.AsyncClient(base_url=url, headers=headers, timeout=20, trust_env=False) as client:
                yield client

    return start


@pytest.fixture
async def client(start_gateway: Start, gateway_settings: GatewaySettings) -> AsyncIterator[httpx.AsyncClient]:
    """A running gateway, asked as admin."""
    async with start_gateway(gateway_settings) as opened:
        yield opened


@pytest.fixture
async def database(mongo_settings: MongoSettings) -> AsyncIterator[mongo.Database]:
    """The gateway's database."""
    async with mongo.open_database(mongo_settings, "tests") as opened:
        yield opened


@pytest.fixture
async def store(database: mongo.Database) -> RunbookStore:
    """The runbook store on that database."""
    opened = RunbookStore(database, SystemClock())
    await opened.ensure_indexes()
    return opened


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(CollectorRegistry())


class StillClock:
    """Time that moves when it is told to; sleeping takes no time but moves it."""

    def __init__(self) -> None:
        self.time = datetime(2026, 5, 1, tzinfo=UTC)
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


class Eventually(Protocol):
    """Waits until an async condition gives something true, and gives it back."""

    def __call__(self, condition: Callable[[], Awaitable[Any]], within: float = 10.0) -> Awaitable[Any]: ...


@pytest.fixture
def eventually() -> Eventually:
    """Wait until an async condition gives something true, at most `within` seconds; gives it back."""

    async def wait(condition: Callable[[], Awaitable[Any]], within: float = 10.0) -> Any:
        async with asyncio.timeout(within):
            while not (found := await condition()):
                await asyncio.sleep(0.01)
        return found

    return wait


def sse(event: str, data: Any) -> bytes:
    return f"event: {event}\ndata: {json.dumps(data)}\n\n".encode()
