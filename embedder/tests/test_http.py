"""The HTTP contract and the vector cache, with a model of four dimensions."""

from __future__ import annotations

import asyncio
import threading
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx
import numpy as np
import pytest
from redis.asyncio import Redis

from cairn_embedder.app import create_app
from cairn_embedder.embedding import MAX_CHARACTERS
from cairn_embedder.model import Kind, Tokens, Vector
from cairn_embedder.ports import Encoder
from cairn_embedder.settings import EmbedderSettings
from cairn_shared.api.embedding import EmbedRequest, ModelInfo
from cairn_shared.embedder_client import EmbedderClient

POISON = zlib.crc32(b"poison")


class FakeEncoder:
    """One token a word and two special ones, 16 at most; fails on the word `poison`."""

    def __init__(self, fingerprint: str = "fake@1") -> None:
        self.info = ModelInfo(
            name="fake", revision="1", dimension=4, max_tokens=16, special_tokens=2, fingerprint=fingerprint
        )
        self.tokenizer_json = '{"version":"1.0"}'
        self.encoded = 0
        self.is_broken = False
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def tokenize(self, texts: Sequence[str], kind: Kind) -> list[Tokens]:
        return [
            Tokens(ids[:16], len(ids))
            for ids in ((1, *(zlib.crc32(word.encode()) for word in text.split()), 2) for text in texts)
        ]

    def encode(self, batch: Sequence[Sequence[int]]) -> Vector:
        self.entered.set()
        assert self.gate.wait(10)
        if self.is_broken or any(POISON in ids for ids in batch):
            raise RuntimeError("choked on /secret/path")
        self.encoded += len(batch)
        vectors = np.array([[sum(ids) % 97 + 1, len(ids), 1, 1] for ids in batch], dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors


Serve = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@asynccontextmanager
async def serving(load: Callable[[], Encoder], redis_url: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the app, its model loaded."""
    settings = EmbedderSettings.model_validate({"port": 0, "redis_url": redis_url, "embedding_queue_size": 8})
    app = create_app(settings, load)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://embedder") as client,
    ):
        async with asyncio.timeout(10):
            while (await client.get("/health/ready")).status_code != 200:
                await asyncio.sleep(0.005)
        yield client


@pytest.fixture
def encoder() -> FakeEncoder:
    return FakeEncoder()


@pytest.fixture
async def client(encoder: FakeEncoder) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(lambda: encoder) as client:
        yield client


async def embed(client: httpx.AsyncClient, *texts: str, **more: object) -> httpx.Response:
    return await client.post("/embed", json={"texts": list(texts), **more})


class TestContract:
    async def test_the_shared_client_understands_the_answer(self, client: httpx.AsyncClient) -> None:
        shared = EmbedderClient(client)
        info = await shared.model()
        answer = await shared.embed(EmbedRequest(texts=["one two", "three"], kind="query"))
        assert (info.dimension, info.max_tokens, info.special_tokens) == (4, 16, 2)
        assert answer.vectors.shape == (2, 4)
        assert answer.fingerprint == info.fingerprint == "fake@1"
        assert (answer.tokens, answer.truncated) == ([4, 3], [False, False])

    async def test_equal_texts_are_computed_once(self, client: httpx.AsyncClient, encoder: FakeEncoder) -> None:
        before = encoder.encoded
        first, second, third, fourth = (await embed(client, "a b", "c", "c", "a b")).json()["vectors"]
        assert encoder.encoded - before == 2
        assert first == fourth != second == third

    async def test_a_text_over_the_limit_is_refused_by_index_and_size(self, client: httpx.AsyncClient) -> None:
        answer = await embed(client, "short", "word " * 20)
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["field"] == "texts[1]"
        assert "22 tokens, the limit is 16" in answer.json()["detail"]

    async def test_a_text_over_the_limit_is_cut_and_flagged_when_asked(self, client: httpx.AsyncClient) -> None:
        answer = await embed(client, "short", "word " * 20, truncate=True)
        assert answer.json()["truncated"] == [False, True]
        assert answer.json()["tokens"] == [3, 16]
        assert "cairn_embedder_truncated_total 1.0" in (await client.get("/metrics")).text

    async def test_a_huge_text_is_not_even_tokenised(self, client: httpx.AsyncClient) -> None:
        huge = "x" * (MAX_CHARACTERS + 1)
        assert (await embed(client, huge)).json()["field"] == "texts[0]"
        assert (await embed(client, huge, truncate=True)).json()["truncated"] == [True]

    @pytest.mark.parametrize("blank", ["", "  \n"])
    async def test_a_blank_text_is_refused(self, client: httpx.AsyncClient, blank: str) -> None:
        answer = await embed(client, "a", blank)
        assert (answer.status_code, answer.json()["field"]) == (422, "texts[1]")

    async def test_a_text_that_the_model_cannot_embed_is_named_and_harms_no_other(
        self, client: httpx.AsyncClient
    ) -> None:
        bad, good = await asyncio.gather(embed(client, "a", "poison"), embed(client, "b"))
        assert (bad.status_code, bad.json()["field"]) == (422, "texts[1]")
        assert "secret" not in bad.text
        assert good.status_code == 200

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"texts": []}, "texts"),
            ({"texts": ["a"] * 257}, "texts"),
            ({"texts": [1]}, "texts.0"),
            ({"texts": ["a"], "kind": "x"}, "kind"),
            ({"texts": ["a"], "extra": 1}, "extra"),
            ({}, "texts"),
        ],
    )
    async def test_a_bad_body_names_its_field(self, client: httpx.AsyncClient, body: object, field: str) -> None:
        answer = await client.post("/embed", json=body)
        assert (answer.status_code, answer.json()["field"]) == (422, field)

    async def test_malformed_json_and_lone_surrogates_are_no_500(self, client: httpx.AsyncClient) -> None:
        assert (
            await client.post("/embed", content=b"{", headers={"content-type": "application/json"})
        ).status_code == 400
        surrogate = await client.post(
            "/embed", content=b'{"texts": ["\\ud800"]}', headers={"content-type": "application/json"}
        )
        assert (surrogate.status_code, surrogate.json()["field"]) == (422, "texts[0]")

    async def test_the_tokenizer_has_the_fingerprint_as_etag(self, client: httpx.AsyncClient) -> None:
        answer = await client.get("/model/tokenizer")
        assert answer.json() == {"version": "1.0"}
        again = await client.get("/model/tokenizer", headers={"if-none-match": answer.headers["etag"]})
        assert again.status_code == 304


class TestReadiness:
    async def test_alive_but_not_ready_while_the_model_loads(self) -> None:
        gate = threading.Event()

        def load() -> FakeEncoder:
            assert gate.wait(10)
            return FakeEncoder()

        app = create_app(EmbedderSettings.model_validate({"port": 0}), load)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://embedder") as client,
        ):
            assert (await client.get("/health")).status_code == 200
            assert (await client.get("/health/ready")).json()["failures"] == {"model": "Unavailable"}
            early = await embed(client, "a")
            assert (early.status_code, early.headers["retry-after"]) == (503, "2")
            gate.set()
            async with asyncio.timeout(10):
                while (await client.get("/health/ready")).status_code != 200:
                    await asyncio.sleep(0.005)
            assert (await embed(client, "a")).status_code == 200

    async def test_a_broken_model_is_unavailable_and_not_ready_until_it_works(
        self, client: httpx.AsyncClient, encoder: FakeEncoder
    ) -> None:
        encoder.is_broken = True
        assert (await embed(client, "a")).status_code == 503
        assert (await client.get("/health/ready")).status_code == 503
        encoder.is_broken = False
        assert (await embed(client, "a")).status_code == 200
        assert (await client.get("/health/ready")).status_code == 200

    async def test_a_full_queue_is_503_with_retry_after(self, client: httpx.AsyncClient, encoder: FakeEncoder) -> None:
        encoder.gate.clear()
        encoder.entered.clear()
        waiting = [asyncio.create_task(embed(client, *(f"t0{m}" for m in range(7))))]
        assert await asyncio.to_thread(encoder.entered.wait, 10)  # the first are being embedded and wait no more
        waiting += [asyncio.create_task(embed(client, *(f"t{n}{m}" for m in range(7)))) for n in (1, 2)]
        done, _ = await asyncio.wait(waiting, timeout=10, return_when=asyncio.FIRST_COMPLETED)
        refused = done.pop().result()
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        encoder.gate.set()
        assert sorted(answer.status_code for answer in await asyncio.gather(*waiting)) == [200, 200, 503]


class TestCache:
    async def settle(self, redis_url: str, keys: int) -> Redis:
        client: Redis = Redis.from_url(redis_url)
        async with asyncio.timeout(5):
            while await client.dbsize() < keys:
                await asyncio.sleep(0.005)
        return client

    async def test_a_vector_is_computed_once_for_all_processes(self, redis_url: str, encoder: FakeEncoder) -> None:
        async with serving(lambda: encoder, redis_url) as client:
            first = (await embed(client, "a b")).json()
            redis = await self.settle(redis_url, 1)
        other = FakeEncoder()
        async with serving(lambda: other, redis_url) as client:
            before = other.encoded
            assert (await embed(client, "a b")).json() == first
            assert other.encoded == before
            assert 'cairn_embedder_cache_total{result="hit"} 1.0' in (await client.get("/metrics")).text
        (key,) = await redis.keys()
        name = key.decode() if isinstance(key, bytes) else key
        assert name.startswith("emb:fake@1:passage:")
        assert "a b" not in name
        assert await redis.ttl(key) > 0
        await redis.aclose()

    async def test_another_fingerprint_shares_nothing(self, redis_url: str, encoder: FakeEncoder) -> None:
        async with serving(lambda: encoder, redis_url) as client:
            await embed(client, "a")
            redis = await self.settle(redis_url, 1)
        other = FakeEncoder("fake@2")
        async with serving(lambda: other, redis_url) as client:
            before = other.encoded
            await embed(client, "a")
            assert other.encoded == before + 1
        await redis.aclose()

    @pytest.mark.parametrize(
        "value", [b"", b"short", np.zeros(4, "<f4").tobytes(), np.full(4, np.nan, "<f4").tobytes()]
    )
    async def test_a_corrupt_value_counts_as_unknown(self, redis_url: str, encoder: FakeEncoder, value: bytes) -> None:
        async with serving(lambda: encoder, redis_url) as client:
            first = (await embed(client, "a")).json()
            redis = await self.settle(redis_url, 1)
            (key,) = await redis.keys()
            await redis.set(key, value)
            assert (await embed(client, "a")).json() == first
        await redis.aclose()

    async def test_without_redis_everything_works(self, encoder: FakeEncoder) -> None:
        async with serving(lambda: encoder, "redis://127.0.0.1:1/0") as client:
            assert (await embed(client, "a")).status_code == 200
            assert (await embed(client, "a")).status_code == 200
            metrics = (await client.get("/metrics")).text
            assert 'cairn_embedder_cache_total{result="error"} 1.0' in metrics, "the second request leaves it alone"


class TestSettings:
    @pytest.mark.parametrize(
        ("changed", "name"),
        [
            ({"embedding_trust_remote_code": True}, "EMBEDDING_REVISION"),
            ({"embedding_model": "/no/such/folder"}, "EMBEDDING_MODEL"),
        ],
    )
    def test_a_wrong_setting_is_named(self, changed: dict[str, object], name: str) -> None:
        with pytest.raises(ValueError, match=name):
            EmbedderSettings.model_validate({"port": 0, **changed})
