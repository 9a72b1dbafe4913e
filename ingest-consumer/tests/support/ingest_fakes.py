"""Deterministic stand-ins for the embedder (as ports and over HTTP), and builders of events."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from cairn_ingest_consumer.errors import TextRefused
from cairn_ingest_consumer.model import Delivery, Vector
from cairn_ingest_consumer.ports import EmbeddingModel
from cairn_shared.api.embedding import EmbedRequest, EmbedResponse, ModelInfo, pack_vector
from cairn_shared.errors import Unavailable
from cairn_shared.events import (
    Event,
    RunbookDeleted,
    RunbookUpserted,
    SourceDocument,
    make_event,
)
from cairn_shared.kafka.records import Record
from cairn_shared.runbooks.model import Runbook, Step

DIMENSION = 384
FINGERPRINT = "fake-384"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def vector_of(text: str, fingerprint: str = FINGERPRINT, dimension: int = DIMENSION) -> Vector:
    """A unit vector that only this text has."""
    seed = int.from_bytes(hashlib.sha256(f"{fingerprint}|{text}".encode()).digest()[:8], "big")
    vector = np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
    return vector / np.float32(np.linalg.norm(vector))


def count_words(text: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]", text)) + 2


class FakeModels:
    """A `ModelSource` whose fingerprint tests can change."""

    def __init__(
        self,
        fingerprint: str = FINGERPRINT,
        dimension: int = DIMENSION,
        storage: Literal["vector", "halfvec"] | None = None,
    ) -> None:
        self.fingerprint = fingerprint
        self.dimension = dimension
        self.storage = storage
        self.away = False

    async def current(self) -> EmbeddingModel:
        if self.away:
            raise Unavailable("embedder")
        return EmbeddingModel(self.fingerprint, self.dimension, 256, count_words, self.fingerprint, self.storage)

    async def refresh(self) -> None:
        pass

    def forget(self) -> None:
        pass


class FakeEmbedder:
    """An `Embedder` that counts; `before` may fail or wait first."""

    def __init__(self, dimension: int = DIMENSION) -> None:
        self.dimension = dimension
        self.texts: list[str] = []
        self.refused: set[str] = set()
        self.before: Callable[[Sequence[str]], Awaitable[None]] | None = None

    async def embed(self, texts: Sequence[str], fingerprint: str) -> list[Vector]:
        if self.before is not None:
            await self.before(texts)
        for index, text in enumerate(texts):
            if any(word in text for word in self.refused):
                raise TextRefused(index, "not this text")
        self.texts += texts
        return [vector_of(text, fingerprint, self.dimension) for text in texts]


def runbook(runbook_id: str, *bodies: str, title: str | None = None, **extra: Any) -> Runbook:
    return Runbook(
        id=runbook_id,
        title=title or f"Runbook {runbook_id}",
        steps=[Step(number=n, label=str(n), body=body) for n, body in enumerate(bodies, start=1)],
        **extra,
    )


def upserted(book: Runbook, version: int, *, source_id: str | None = None, rewrite: bool = False) -> Event:
    return make_event(
        "runbook.upserted",
        source="runbooks",
        source_id=source_id or f"{book.id}@{version}",
        subject=book.id,
        version=version,
        occurred_at=EPOCH + timedelta(seconds=version),
        accepted_at=datetime.now(UTC),
        payload=RunbookUpserted(runbook=book, rewrite=rewrite),
    )


def deleted(runbook_id: str, version: int) -> Event:
    return make_event(
        "runbook.deleted",
        source="runbooks",
        source_id=f"{runbook_id}@{version}",
        subject=runbook_id,
        version=version,
        occurred_at=EPOCH + timedelta(seconds=version),
        accepted_at=datetime.now(UTC),
        payload=RunbookDeleted(runbook_id=runbook_id),
    )


def source_event(
    subject: str, version: int, *, kind: str = "ticket", part: str = "", salt: str = "", **fields: Any
) -> Event:
    return make_event(
        kind,  # type: ignore[arg-type]
        source="jira",
        source_id=f"{subject}|{part}|{version}{salt}",
        subject=subject,
        version=version,
        occurred_at=EPOCH + timedelta(seconds=version),
        accepted_at=datetime.now(UTC),
        payload=SourceDocument(**{"title": f"{subject} {part}".strip(), "part": part, **fields}),
    )


def record_of(event: Event, offset: int, *, topic: str | None = None, partition: int = 0) -> Record:
    return Record(
        topic=topic or event.topic(),
        partition=partition,
        offset=offset,
        key=event.key(),
        value=event.encode(),
        headers=tuple(event.headers()),
        timestamp_ms=1_767_225_600_000 + offset,
        timestamp_type="create",
    )


def deliveries_of(events: Sequence[Event], first_offset: int = 0) -> list[Delivery]:
    return [Delivery(record_of(event, offset), event) for offset, event in enumerate(events, start=first_offset)]


class EmbedderServer:
    """The embedder's HTTP API with fake vectors. `answer` may replace the answer of `/embed` (status, headers, body)."""

    def __init__(self, fingerprint: str = FINGERPRINT, dimension: int = DIMENSION) -> None:
        self.fingerprint = fingerprint
        self.dimension = dimension
        self.requests: list[EmbedRequest] = []
        self.answer: Callable[[EmbedRequest, EmbedResponse], Awaitable[tuple[int, dict[str, str], bytes] | None]] | None
        self.answer = None
        tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = Whitespace()
        tokenizer.enable_truncation(8)  # as MiniLM's own: a counter that does not switch it off counts wrong
        self.tokenizer = tokenizer.to_str().encode()

    async def respond(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        if path == "/model":
            info = ModelInfo(
                name="fake",
                revision="1",
                dimension=self.dimension,
                max_tokens=256,
                special_tokens=0,
                fingerprint=self.fingerprint,
            )
            return 200, {}, info.model_dump_json().encode()
        if path == "/model/tokenizer":
            return 200, {}, self.tokenizer
        request = EmbedRequest.model_validate_json(body)
        self.requests.append(request)
        response = EmbedResponse(
            fingerprint=self.fingerprint,
            dimension=self.dimension,
            vectors=[
                pack_vector(vector_of(text, self.fingerprint, self.dimension).tobytes()) for text in request.texts
            ],
            tokens=[count_words(text) for text in request.texts],
            truncated=[False] * len(request.texts),
        )
        if self.answer is not None and (replaced := await self.answer(request, response)) is not None:
            return replaced
        return 200, {}, response.model_dump_json().encode()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                line, *headers = head.split("\r\n")
                length = next((int(h.split(":")[1]) for h in headers if h.lower().startswith("content-length")), 0)
                body = await reader.readexactly(length)
                method, path, _ = line.split(" ")
                status, extra, content = await self.respond(method, path, body)
                fields = "".join(f"{name}: {value}\r\n" for name, value in extra.items())
                writer.write(
                    f"HTTP/1.1 {status} X\r\n{fields}Content-Length: {len(content)}\r\n\r\n".encode() + content
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """The server's URL."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 24)
        port = server.sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.close()


def problem(status: int, detail: str) -> tuple[int, dict[str, str], bytes]:
    return status, {"content-type": "application/problem+json"}, json.dumps({"detail": detail}).encode()
