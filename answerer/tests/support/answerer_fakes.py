"""A scripted model and a retriever as real local HTTP servers, and an index in memory."""

from __future__ import annotations

import asyncio
import json
import random
import re
import secrets
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from cairn_answerer import breaker, cache, flights, pipeline, prompt, resilience, writing
from cairn_answerer.adapters.openai_model import OpenAIModel
from cairn_answerer.adapters.retriever import HttpRetriever
from cairn_answerer.breaker import Circuit
from cairn_answerer.bulkhead import Room
from cairn_answerer.gathering import Gatherer
from cairn_answerer.metrics import Metrics
from cairn_answerer.model import CorpusState, Passage, Shown
from cairn_answerer.refine import Refiner
from cairn_shared.api.search import Gate, Hit, SearchRequest, SearchResponse
from cairn_shared.clock import Clock, SystemClock
from cairn_shared.errors import Unavailable
from cairn_shared.http import open_client
from cairn_shared.retry import Backoff

DOCUMENT = uuid.UUID("11111111-1111-4111-8111-111111111111")
TITLE = "PostgreSQL replica, fallen behind"
STEPS = (
    "**Measure the lag.** Run `SELECT pg_last_wal_replay_lsn();` on the standby and wait 5 minutes.",
    (
        "**Look at the slot.** Do not drop the slot while the standby needs it.\n\n"
        "```bash\nkubectl -n $NAMESPACE exec <pod> -- df -h /var/lib/postgresql\n```"
    ),
    (
        "**Give the slot room.** Set `max_slot_wal_keep_size` to 200GB:\n\n"
        "```sql\nALTER SYSTEM SET max_slot_wal_keep_size = '200GB';\nSELECT pg_reload_conf();\n```"
    ),
    "**Delete the stuck pod.** `kubectl -n $NAMESPACE delete pod <pod> --grace-period=30` restarts the standby.",
)


def step_id(number: int, document: uuid.UUID = DOCUMENT) -> uuid.UUID:
    return uuid.uuid5(document, str(number))


def make_passage(number: int = 1, text: str | None = None, **changes: Any) -> Passage:
    values: dict[str, Any] = {
        "step_id": step_id(number),
        "document_id": DOCUMENT,
        "kind": "runbook",
        "runbook_id": "pg-replica",
        "title": TITLE,
        "number": number,
        "label": str(number),
        "section": "Steps",
        "text": text if text is not None else STEPS[number - 1],
        "version": 3,
        "content_sha": f"sha-{number}",
        "score": 1.0 / number,
    }
    return Passage(**{**values, **changes})


def make_shown(*passages: Passage) -> list[Shown]:
    """With the ids k1mq, k2mq, ..."""
    return [Shown(f"k{place}mq", passage, passage.text) for place, passage in enumerate(passages, 1)]


def make_hit(number: int = 1, text: str | None = None, **changes: Any) -> Hit:
    values: dict[str, Any] = {
        "kind": "runbook",
        "document_id": DOCUMENT,
        "step_id": step_id(number),
        "runbook_id": "pg-replica",
        "source": "api",
        "title": TITLE,
        "step": number,
        "label": str(number),
        "section": "Steps",
        "text": text if text is not None else STEPS[number - 1],
        "path": "postgresql/replica.md",
        "line_start": 10 * number,
        "line_end": 10 * number + 5,
        "version": 3,
        "content_sha": f"sha-{number}",
        "score": 1.0 / number,
        "features": {},
    }
    return Hit(**{**values, **changes})


def make_event(text: str, *, kind: str = "log", title: str = "orders", **changes: Any) -> Hit:
    document = uuid.uuid5(uuid.NAMESPACE_OID, text)
    values: dict[str, Any] = {
        "kind": kind,
        "document_id": document,
        "step_id": step_id(1, document),
        "runbook_id": "log:orders",
        "source": "logs",
        "title": title,
        "section": "",
        "path": None,
        "line_start": None,
        "line_end": None,
        "occurred_at": datetime(2026, 11, 20, tzinfo=UTC),
    }
    return make_hit(1, text, **{**values, **changes})


def make_search(*hits: Hit, enough: bool = True, degraded: Sequence[str] = (), epoch: int = 1) -> SearchResponse:
    return SearchResponse(
        results=list(hits),
        mode="keyword" if "embedder" in degraded else "hybrid",
        degraded=list(degraded),
        gate=Gate(
            best_cosine=0.8,
            best_coverage=0.7,
            identifiers_asked=[],
            identifiers_found=[],
            routed=False,
            enough=enough,
        ),
        epoch=epoch,
        fingerprint="minilm",
        timings={},
    )


@dataclass
class Request:
    """One HTTP request as it came in."""

    path: str
    headers: Mapping[str, str]
    body: Any


Handler = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


class RawServer:
    """HTTP/1.1, one request a connection: raw enough to break off wherever a test wants it."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuse connections and drop those that are open."""
        if self._server is not None:
            self._server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._server.wait_closed()
            self._server = None

    async def handle(self, request: Request, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = head.split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            request = Request(lines[0].split(" ")[1], headers, json.loads(body) if body else None)
            self.requests.append(request)
            await self.handle(request, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def respond(
    writer: asyncio.StreamWriter, body: bytes, *, status: int = 200, kind: str = "application/json", **headers: str
) -> None:
    extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    writer.write(
        f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n{extra}\r\n".encode()
        + body
    )


def begin_stream(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")


def delta(text: str, finish: str | None = None) -> bytes:
    event = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}
    return b"data: " + json.dumps(event).encode() + b"\n\n"


Script = Callable[["ModelCall", asyncio.StreamWriter], Awaitable[None]]


@dataclass
class ModelCall:
    """What the model was asked, and the ids by which it may cite."""

    request: Request
    ids: dict[int, str] = field(default_factory=dict)
    event_ids: list[str] = field(default_factory=list)

    @property
    def prompt(self) -> str:
        return "\n".join(message["content"] for message in self.request.body["messages"])

    @property
    def user(self) -> str:
        return str(self.request.body["messages"][1]["content"])


class ScriptedModel(RawServer):
    """An OpenAI-compatible endpoint that does what the next script says; the last one is repeated."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[Script] = []
        self.calls: list[ModelCall] = []
        self.disconnected = 0

    async def handle(self, request: Request, writer: asyncio.StreamWriter) -> None:
        call = ModelCall(request)
        for line in re.findall(r"^<<excerpt (.*)>>$", call.user, re.MULTILINE):
            attributes = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', line))
            if attributes["kind"] == "runbook":
                call.ids.setdefault(int(attributes["step"]), attributes["id"])
            else:
                call.event_ids.append(attributes["id"])
        self.calls.append(call)
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        try:
            await script(call, writer)
        except (ConnectionError, asyncio.CancelledError):
            self.disconnected += 1
            raise


class FakeRetriever(RawServer):
    """Answers every search with `answer`, or as it says for the query."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: SearchResponse | Callable[[SearchRequest], SearchResponse] = make_search(make_hit(1))
        self.status = 200

    async def handle(self, request: Request, writer: asyncio.StreamWriter) -> None:
        if self.status != 200:
            respond(writer, b'{"detail": "postgres cannot be reached"}', status=self.status)
            return
        asked = SearchRequest.model_validate(request.body)
        answer = self.answer(asked) if callable(self.answer) else self.answer
        respond(writer, answer.model_dump_json().encode())


def text_script(content: str, *, piece: int = 7, finish: str = "stop") -> Script:
    """Streams `content` in small pieces."""

    async def run(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        begin_stream(writer)
        for start in range(0, len(content), piece):
            writer.write(delta(content[start : start + piece]))
        writer.write(delta("", finish) + b"data: [DONE]\n\n")

    return run


def claims_script(*claims: tuple[str, Sequence[int | str]], answerable: bool = True, delay: float = 0.0) -> Script:
    """Writes claims as asked for; numbers in the citations are steps and become their ids."""

    async def run(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        if delay:
            await asyncio.sleep(delay)
        body = {
            "answerable": answerable,
            "claims": [
                {
                    "text": text,
                    "cites": [call.ids.get(cite, "none") if isinstance(cite, int) else cite for cite in cites],
                }
                for text, cites in claims
            ],
        }
        await text_script(json.dumps(body))(call, writer)

    return run


def status_script(status: int, **headers: str) -> Script:
    async def run(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        respond(writer, b'{"error": {"message": "no"}}', status=status, **headers)

    return run


async def hang_script(call: ModelCall, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def half_stream_script(call: ModelCall, writer: asyncio.StreamWriter) -> None:
    begin_stream(writer)
    writer.write(delta('{"answerable": true, "claims": [{"text": "Run `SELECT pg_last_wal_replay_lsn();` on the'))
    await writer.drain()


GOOD_CLAIMS = (
    ("Run `SELECT pg_last_wal_replay_lsn();` on the standby and wait 5 minutes.", [1]),
    ("Do not drop the slot while the standby needs it.", [2]),
)
GOOD = claims_script(*GOOD_CLAIMS)


class MemoryCorpus:
    """Corpus in memory; `away` makes every call fail."""

    def __init__(self, steps: Sequence[Passage] = ()) -> None:
        self.steps = list(steps)
        self.epoch = 1
        self.away = False
        self.known: dict[str, int] = {"pg-replica": 3}
        self.ended: set[uuid.UUID] = set()

    def _check(self) -> None:
        if self.away:
            raise Unavailable("postgres")

    async def state(self) -> CorpusState:
        self._check()
        return CorpusState(self.epoch, "minilm", datetime(2026, 11, 30, tzinfo=UTC), 0.4)

    async def check(self, dependencies: Mapping[uuid.UUID, str]) -> tuple[CorpusState, bool]:
        known = {step.step_id: step.content_sha for step in self.steps}
        unchanged = all(known.get(step) == sha for step, sha in dependencies.items())
        return await self.state(), unchanged

    async def procedure(self, document_id: uuid.UUID) -> list[Passage]:
        self._check()
        return [step for step in self.steps if step.document_id == document_id]

    async def revisions(self, runbook_ids: Sequence[str]) -> dict[str, int]:
        self._check()
        return {name: self.known[name] for name in runbook_ids if name in self.known}

    async def settled(self, event_ids: Sequence[uuid.UUID]) -> set[uuid.UUID]:
        self._check()
        return self.ended & set(event_ids)


@asynccontextmanager
async def serving(app: FastAPI) -> AsyncIterator[str]:
    """The app behind a real server; yields its address."""
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False, timeout_graceful_shutdown=1)
    )
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.create_task(server.serve())
    while not server.started:
        if task.done():
            task.result()
        await asyncio.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task


class HandClock:
    """Wall time that moves when told to."""

    def __init__(self) -> None:
        self.time = datetime(2026, 11, 30, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    async def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class MemoryStore:
    """AnswerStore, FlightStore and CircuitStore in memory: what several replicas share. Nothing in it expires by itself."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.seconds: dict[str, float] = {}
        self.leases: dict[str, str] = {}
        self.failures = 0
        self.opened_at: float | None = None
        self.probe: str | None = None

    async def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    async def put(self, key: str, value: bytes, seconds: float) -> None:
        self.values[key] = value
        self.seconds[key] = seconds

    async def lead(self, key: str, token: str, seconds: float) -> str:
        return self.leases.setdefault(key, token)

    async def renew(self, key: str, token: str, seconds: float) -> bool:
        return self.leases.get(key) == token

    async def land(self, key: str, token: str, result: bytes | None, seconds: float) -> None:
        if self.leases.get(key) == token:
            if result is not None:
                self.values[f"{key}:{token}"] = result
            del self.leases[key]

    async def look(self, key: str, token: str) -> tuple[str | None, bytes | None]:
        return self.leases.get(key), self.values.get(f"{key}:{token}")

    async def read(self) -> tuple[int, float | None]:
        return self.failures, self.opened_at

    async def failed(self) -> int:
        self.failures += 1
        return self.failures

    async def opened(self, at: float) -> None:
        self.opened_at = at

    async def closed(self) -> None:
        self.failures, self.opened_at = 0, None

    async def take_probe(self, token: str, seconds: float) -> bool:
        self.probe = self.probe or token
        return self.probe == token

    async def release_probe(self, token: str) -> None:
        if self.probe == token:
            self.probe = None


@dataclass
class Bench:
    """The pipeline over the real adapters for HTTP and in-memory stores: everything but PostgreSQL and Redis."""

    retriever: FakeRetriever
    model: ScriptedModel | None
    corpus: MemoryCorpus
    store: MemoryStore
    clients: AsyncExitStack
    clock: Clock = field(default_factory=SystemClock)

    async def answerer(
        self,
        *,
        deadline: float = 3.0,
        attempt: float = 0.6,
        silence: float = 8.0,
        model_room: Room = writing.ROOM,
        failures: int = 5,
        open_seconds: float = 30.0,
        refine: float | None = None,
        wait: float = 0.3,
    ) -> pipeline.Answerer:
        """One replica; several may share the stores."""
        metrics = Metrics(CollectorRegistry())
        writer, refiner = None, None
        if self.model is not None:
            client = await self.clients.enter_async_context(open_client(f"{self.model.url}/v1/", attempt))
            endpoint = OpenAIModel(
                client,
                model="scripted",
                api_key=SecretStr("sk-test"),
                max_tokens=500,
                temperature=0.1,
                schema=prompt.SCHEMA,
                silence=silence,
            )
            circuit = Circuit(
                self.store, self.clock, breaker.Policy(failures, open_seconds, 2.0), on_change=metrics.circuit_state.set
            )
            patience = resilience.Patience(attempt_seconds=attempt, backoff=Backoff(base=0.02, limit=0.1))
            chat = resilience.ResilientModel(endpoint, circuit, self.clock, patience)
            writer = writing.Writer(
                chat,
                metrics,
                choose=random.SystemRandom().choice,
                nonce=lambda: secrets.token_hex(8),
                policy=writing.Policy(reserve=0.4, room=model_room),
                budget=24_000,
            )
            if refine is not None:
                refiner = Refiner(endpoint, circuit, refine)
        search = await self.clients.enter_async_context(open_client(self.retriever.url, 2.0))
        return pipeline.Answerer(
            gatherer=Gatherer(HttpRetriever(search), self.corpus, refiner),
            writer=writer,
            corpus=self.corpus,
            answers=cache.AnswerCache(self.store, self.corpus, metrics, lambda low, high: (low + high) / 2),
            flights=flights.Flights(self.store, self.clock, metrics, flights.Policy(lease=0.5)),
            fingerprints=cache.Fingerprints("model", prompt.PROMPT_VERSION, "hybrid"),
            clock=self.clock,
            policy=pipeline.Policy(deadline=deadline, wait=wait, search=2.0),
            metrics=metrics,
            request_id=lambda: "test",
        )


async def post(url: str, question: str = "How do I recover the replica?", **body: Any) -> dict[str, Any]:
    """The answer of `POST /ask`, which is always 200."""
    async with httpx.AsyncClient(timeout=20) as client:
        response = await client.post(f"{url}/ask", json={"question": question, **body})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer
