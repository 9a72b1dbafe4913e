"""A model behind an OpenAI-compatible endpoint: a scripted one, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from prometheus_client import CollectorRegistry
from tokenizers import Tokenizer

from cairn_embedder.adapters.openai_embeddings import RemoteEngine, RemoteModel, RemotePolicy
from cairn_embedder.adapters.remote_reading import RemoteChoice, RemoteReading, estimate
from cairn_embedder.app import create_app
from cairn_embedder.errors import WrongSetting
from cairn_embedder.metrics import EmbedderMetrics
from cairn_embedder.model import Tokens, Vector
from cairn_embedder.prefixes import Prefixes
from cairn_embedder.settings import EmbedderSettings
from cairn_shared.api.embedding import EmbedRequest
from cairn_shared.embedder_client import EmbedderClient
from cairn_shared.errors import CairnError, InvalidInput, TransientError
from cairn_shared.http import open_client
from cairn_shared.openai import Endpoint

KEY = "sk-secret-of-the-test"
Answer = tuple[int, dict[str, str], bytes]


def vector_of(text: str, dimension: int) -> list[float]:
    generator = np.random.default_rng(zlib.crc32(text.encode()))
    return [float(one) for one in 3 * generator.standard_normal(dimension)]


def unit(text: str, own: int, dimension: int | None = None) -> Vector:
    vector = np.array(vector_of(text, own), dtype=np.float32)[:dimension]
    return vector / np.float32(np.linalg.norm(vector))


@dataclass
class Server:
    """`POST /v1/embeddings`, whose vectors come in reverse; `script` may answer instead, once per entry."""

    dimension: int = 8
    cuts: bool = True
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: set[str | None] = field(default_factory=set)
    script: list[Callable[[dict[str, Any]], Answer | None]] = field(default_factory=list)
    always: Callable[[dict[str, Any]], Answer | None] = lambda _: None

    def answer(self, body: dict[str, Any]) -> Answer:
        special = self.script.pop(0)(body) if self.script else self.always(body)
        if special is not None:
            return special
        if "dimensions" in body and not self.cuts:
            return 400, {}, b'{"error": {"message": "does not support matryoshka"}}'
        length = body.get("dimensions", self.dimension)
        rows = [
            {"object": "embedding", "index": index, "embedding": vector_of(text, self.dimension)[:length]}
            for index, text in enumerate(body["input"])
        ]
        return 200, {}, json.dumps({"object": "list", "data": rows[::-1], "model": body["model"]}).encode()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
                body = json.loads(await reader.readexactly(int(headers.get("content-length", "0"))))
                assert head[0].startswith("POST /v1/embeddings ")
                self.requests.append(body)
                self.keys.add(headers.get("authorization"))
                status, extra, content = self.answer(body)
                lines = "".join(f"{name}: {value}\r\n" for name, value in extra.items())
                writer.write(f"HTTP/1.1 {status} X\r\n{lines}Content-Length: {len(content)}\r\n\r\n".encode() + content)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        finally:
            server.close()


def refuse(status: int, **headers: str) -> Callable[[dict[str, Any]], Answer]:
    return lambda _: (status, {name.replace("_", "-"): value for name, value in headers.items()}, b"{}")


def poisoned(status: int) -> Callable[[dict[str, Any]], Answer | None]:
    """Refuses every batch with the word `poison` in it."""
    return lambda body: (status, {}, b"{}") if any("poison" in text for text in body["input"]) else None


@pytest.fixture
def server() -> Server:
    return Server()


class QuickClock:
    """Time that passes by sleeping only, at once."""

    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time, UTC)

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


@dataclass
class Asked:
    """An engine on the server."""

    engine: RemoteEngine
    clock: QuickClock

    async def vectors(self, *texts: str) -> list[Vector | CairnError]:
        return await self.engine.submit([Tokens((1,), 1, text) for text in texts], "passage")


@pytest.fixture
async def asked(server: Server) -> AsyncIterator[Asked]:
    clock = QuickClock()
    async with server.running() as url, open_client(f"{url}/", 5) as client:
        model = RemoteModel(client, Endpoint.of(url), model="m", api_key=None, dimensions=None)
        metrics = EmbedderMetrics(CollectorRegistry())
        yield Asked(RemoteEngine(model, RemotePolicy(batch=4), metrics, clock, own=8, dimension=8), clock)


@asynccontextmanager
async def serving(server: Server, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an embedder on the server."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(server.running())
        app = create_app(
            EmbedderSettings.model_validate(
                {
                    "port": 0,
                    "embeddings_base_url": url,
                    "embeddings_api_key": KEY,
                    "embedding_model": "org/m",
                    **settings,
                }
            )
        )
        await stack.enter_async_context(app.router.lifespan_context(app))
        client = await stack.enter_async_context(
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://embedder")
        )
        async with asyncio.timeout(10):
            while (await client.get("/health/ready")).status_code != 200:
                await asyncio.sleep(0.005)
        yield client


async def test_texts_to_vectors_in_their_order_and_in_bounded_requests(server: Server) -> None:
    texts = [f"text {number}" for number in range(7)]
    async with serving(server, embeddings_batch=3, embedding_passage_prefix="passage: ") as client:
        server.requests.clear()
        answer = await EmbedderClient(client).embed(EmbedRequest(texts=texts, kind="passage"))
    assert np.allclose(answer.vectors, [unit(f"passage: {text}", 8) for text in texts], atol=1e-6)
    assert [len(request["input"]) for request in server.requests] == [3, 3, 1]
    assert {request["model"] for request in server.requests} == {"org/m"}
    assert server.keys == {f"Bearer {KEY}"}


@pytest.mark.parametrize("cuts", [True, False], ids=["the endpoint cuts", "cut here"])
async def test_dimensions(server: Server, cuts: bool) -> None:
    server.cuts = cuts
    server.dimension = 16
    async with serving(server, embedding_dimensions=8) as client:
        shared = EmbedderClient(client)
        assert (await shared.model()).dimension == 8
        answer = await shared.embed(EmbedRequest(texts=["disk full"]))
    assert np.allclose(answer.vectors[0], unit("disk full", 16, 8), atol=1e-6)


async def test_a_model_of_fewer_dimensions_than_asked_for_is_refused_by_name(server: Server) -> None:
    refused: list[str] = []
    server.cuts = False
    async with server.running() as url:
        settings = {"port": 0, "embeddings_base_url": url, "embedding_model": "m", "embedding_dimensions": 9}
        app = create_app(EmbedderSettings.model_validate(settings), refuse=refused.append)
        async with app.router.lifespan_context(app), asyncio.timeout(10):
            while not refused:
                await asyncio.sleep(0.005)
    assert refused == ["EMBEDDING_DIMENSIONS: 9 is more than the 8 that the model has"]


class TestPatience:
    async def test_what_may_pass_is_tried_again_and_retry_after_is_kept(self, server: Server, asked: Asked) -> None:
        server.script = [refuse(503), refuse(429, retry_after="7")]
        (vector,) = await asked.vectors("a")
        assert isinstance(vector, np.ndarray)
        assert asked.clock.slept[0] < 1
        assert asked.clock.slept[1] == 7

    async def test_a_wait_beyond_the_patience_is_handed_on(self, server: Server, asked: Asked) -> None:
        server.always = refuse(429, retry_after="60")
        with pytest.raises(TransientError) as caught:
            await asked.vectors("a")
        assert (caught.value.retry_after, asked.clock.slept, len(server.requests)) == (60, [], 1)
        assert asked.engine.is_healthy, "it is there, and busy"

    async def test_attempts_are_bounded_and_then_it_is_not_healthy(self, server: Server, asked: Asked) -> None:
        server.always = refuse(500)
        with pytest.raises(TransientError):
            await asked.vectors("a")
        assert (len(server.requests), asked.engine.is_healthy) == (3, False)

    @pytest.mark.parametrize(("status", "named"), [(401, "EMBEDDINGS_API_KEY"), (404, "EMBEDDING_MODEL")])
    async def test_what_is_set_up_wrong_is_named_and_not_repeated(
        self, server: Server, asked: Asked, status: int, named: str
    ) -> None:
        server.always = refuse(status)
        with pytest.raises(TransientError, match=named):
            await asked.vectors("a")
        assert (len(server.requests), asked.engine.is_healthy) == (1, False)

    async def test_it_is_looked_at_until_it_works_again(self, server: Server, asked: Asked) -> None:
        asked.engine.is_healthy = False
        server.script = [refuse(500), refuse(500)]
        async with asyncio.timeout(5):
            running = asyncio.create_task(asked.engine.run())
            while not asked.engine.is_healthy:
                await asyncio.sleep(0.001)
            running.cancel()
        assert len(server.requests) == 3


class TestBadTexts:
    @pytest.mark.parametrize("status", [400, 413, 422])
    async def test_the_culprit_of_a_batch_is_alone(self, server: Server, asked: Asked, status: int) -> None:
        server.always = poisoned(status)
        results = await asked.vectors("a", "b", "poison", "c", "d")
        assert [isinstance(one, InvalidInput) for one in results] == [False, False, True, False, False]
        assert asked.engine.is_healthy

    async def test_an_endpoint_that_refuses_everything_blames_no_text(self, server: Server, asked: Asked) -> None:
        """Else a wrong setting would make every record a dead letter."""
        server.always = refuse(400)
        results = await asked.vectors("a", "b")
        assert all(isinstance(one, TransientError) for one in results)
        assert not asked.engine.is_healthy

    async def test_over_http_the_text_is_named_and_no_secret_is_told(self, server: Server) -> None:
        async with serving(server) as client:
            server.always = poisoned(400)
            answer = await client.post("/embed", json={"texts": ["a", "poison"]})
        assert (answer.status_code, answer.json()["field"]) == (422, "texts[1]")
        assert KEY not in answer.text


def rows(*vectors: list[float], first: int = 0) -> Answer:
    data = [{"index": index, "embedding": vector} for index, vector in enumerate(vectors, start=first)]
    return 200, {}, json.dumps({"data": data}).encode()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param((200, {}, b"<html>"), id="no JSON"),
        pytest.param((200, {}, b'{"data": [{"index": 0}]}'), id="no vector"),
        pytest.param(rows(), id="too few"),
        pytest.param(rows([1.0] * 8, [1.0] * 8), id="too many"),
        pytest.param(rows([1.0] * 8, first=1), id="of another text"),
        pytest.param(rows([1.0] * 7), id="another dimension"),
        pytest.param(rows([]), id="empty"),
        pytest.param(rows([float("nan")] * 8), id="not a number"),
        pytest.param(rows([1e300] * 8), id="too great"),
    ],
)
async def test_an_answer_that_cannot_be_right_is_no_vector(server: Server, asked: Asked, answer: Answer) -> None:
    server.always = lambda _: answer
    with pytest.raises(TransientError):
        await asked.vectors("a")


async def test_a_zero_vector_is_the_texts_fault(server: Server, asked: Asked) -> None:
    server.always = lambda _: rows([0.0] * 8)
    (error,) = await asked.vectors("a")
    assert isinstance(error, InvalidInput)


class TestReading:
    CHOICE = RemoteChoice("org/m", prefixes=Prefixes("query: ", "passage: "), max_tokens=32)

    def test_the_fingerprint_has_what_is_known_to_change_a_vector_and_not_the_address(self) -> None:
        same = RemoteReading(self.CHOICE, 8).info.fingerprint
        assert same == RemoteReading(replace(self.CHOICE), 8).info.fingerprint
        assert same.startswith("m@")
        assert same.endswith(":remote:32:d8")
        others = {
            RemoteReading(choice, 8).info.fingerprint
            for choice in [
                replace(self.CHOICE, name="org/n"),
                replace(self.CHOICE, revision="2"),
                replace(self.CHOICE, prefixes=Prefixes("query: ")),
                replace(self.CHOICE, max_tokens=64),
                replace(self.CHOICE, dimensions=4),
                replace(self.CHOICE, storage="halfvec"),
            ]
        }
        assert len(others - {same}) == 6

    def test_a_secret_in_a_question_stays_here(self) -> None:
        secret = "ghp_" + "a1B2" * 9
        (query,) = RemoteReading(self.CHOICE, 8).tokenize([f"clone fails with {secret} please help"], "query")
        assert secret not in query.text
        assert "clone fails with" in query.text

    def test_a_text_is_cut_where_the_tokens_end(self) -> None:
        reading = RemoteReading(self.CHOICE, 8)
        (whole, cut) = reading.tokenize(["disk full", "disk " * 50], "query")
        assert (whole.text, whole.truncated) == ("query: disk full", False)
        assert (len(cut.ids), cut.count, cut.text) == (32, 53, ("query: " + "disk " * 29).strip())

    def test_different_texts_are_different_whatever_the_estimate_says(self) -> None:
        one, other = RemoteReading(self.CHOICE, 8).tokenize(["disk", "lag"], "query")
        assert one.ids == other.ids
        assert one != other

    def test_the_estimate_is_a_tokenizer_that_the_consumer_can_read(self) -> None:
        counter = Tokenizer.from_str(estimate().to_str())
        counts = {text: len(counter.encode(text).ids) for text in ("disk full", "pg_basebackup", "日本語", "a" * 400)}
        assert counts == {"disk full": 2, "pg_basebackup": 5, "日本語": 3, "a" * 400: 100}

    def test_no_tokenizer_where_one_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(WrongSetting, match="EMBEDDINGS_TOKENIZER"):
            RemoteReading(replace(self.CHOICE, tokenizer=str(tmp_path)), 8)


def test_an_endpoint_needs_the_name_of_its_model() -> None:
    with pytest.raises(ValueError, match="EMBEDDING_MODEL"):
        EmbedderSettings.model_validate({"port": 0, "embeddings_base_url": "http://x/v1"})
