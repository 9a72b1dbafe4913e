"""A scripted model and a retriever as real local HTTP servers, and the service behind a real one."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from answerer_corpus import make_hit, make_search
from fastapi import FastAPI

from cairn_shared.api.search import SearchRequest, SearchResponse


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
        said = [message for message in self.request.body["messages"] if message["role"] == "user"]
        return str(said[0]["content"])


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


Item = tuple[int | str, Sequence[int] | None] | tuple[int | str, Sequence[int] | None, str]
"""A step by its number or an id, units by theirs from 1, and perhaps a lead."""


def plan_of(call: ModelCall, *items: Item, answerable: bool = True, lead: str = "") -> dict[str, Any]:
    """A plan as asked for; steps by their numbers become their ids."""
    written = []
    for step, units, *words in items:
        key = call.ids.get(step, "none") if isinstance(step, int) else step
        written.append({"step": key, **({} if units is None else {"units": list(units)}), "lead": "".join(words)})
    return {"answerable": answerable, "lead": lead, "items": written}


def plan_script(*items: Item, answerable: bool = True, lead: str = "", delay: float = 0.0) -> Script:
    """Writes a plan."""

    async def run(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        if delay:
            await asyncio.sleep(delay)
        await text_script(json.dumps(plan_of(call, *items, answerable=answerable, lead=lead)))(call, writer)

    return run


def status_script(status: int, **headers: str) -> Script:
    async def run(call: ModelCall, writer: asyncio.StreamWriter) -> None:
        respond(writer, b'{"error": {"message": "no"}}', status=status, **headers)

    return run


async def hang_script(call: ModelCall, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def half_stream_script(call: ModelCall, writer: asyncio.StreamWriter) -> None:
    begin_stream(writer)
    writer.write(delta('{"answerable": true, "items": [{"step": "' + call.ids[1] + '", "units": [1'))
    await writer.drain()


GOOD_PLAN: tuple[Item, ...] = ((1, [1, 2]), (2, [2]))


GOOD = plan_script(*GOOD_PLAN)


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


async def post(url: str, question: str = "How do I recover the replica?", **body: Any) -> dict[str, Any]:
    """The answer of `POST /ask`, which is always 200."""
    async with httpx.AsyncClient(timeout=20) as client:
        response = await client.post(f"{url}/ask", json={"question": question, **body})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer
