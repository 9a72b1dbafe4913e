"""The embedder over HTTP, well and unwell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import numpy as np
import pytest
from ingest_fakes import FINGERPRINT, EmbedderServer, problem, vector_of

from cairn_ingest_consumer.adapters.embedder import HttpEmbedder, HttpModelSource
from cairn_ingest_consumer.embedding import TEXTS_PER_REQUEST, embed_all
from cairn_ingest_consumer.errors import TextRefused
from cairn_shared.api.embedding import EmbedRequest, EmbedResponse, pack_vector
from cairn_shared.embedder_client import EmbedderClient
from cairn_shared.errors import TransientError, Unavailable
from cairn_shared.http import open_client

Answer = tuple[int, dict[str, str], bytes] | None


@dataclass
class Setup:
    server: EmbedderServer
    client: httpx.AsyncClient
    embedder: HttpEmbedder


@pytest.fixture
async def setup() -> AsyncIterator[Setup]:
    server = EmbedderServer()
    async with server.running() as url, open_client(url, 2.0) as client:
        yield Setup(server, client, HttpEmbedder(EmbedderClient(client)))


async def test_vectors_come_in_the_order_of_the_texts_over_several_requests(setup: Setup) -> None:
    texts = [f"text {n}" for n in range(2 * TEXTS_PER_REQUEST + 3)]
    vectors = await embed_all(setup.embedder, texts, FINGERPRINT)
    assert all(np.array_equal(vector, vector_of(text)) for vector, text in zip(vectors, texts, strict=True))
    assert [len(request.texts) for request in setup.server.requests] == [TEXTS_PER_REQUEST, TEXTS_PER_REQUEST, 3]
    assert all(request.kind == "passage" and not request.truncate for request in setup.server.requests)


async def test_a_batch_that_is_too_large_is_halved_until_it_fits(setup: Setup) -> None:
    async def at_most_four(request: EmbedRequest, _: EmbedResponse) -> Answer:
        return problem(413, "too many") if len(request.texts) > 4 else None

    setup.server.answer = at_most_four
    texts = [f"text {n}" for n in range(30)]
    vectors = await embed_all(setup.embedder, texts, FINGERPRINT)
    assert all(np.array_equal(vector, vector_of(text)) for vector, text in zip(vectors, texts, strict=True))


@pytest.mark.parametrize("status", [400, 422, 413])
@pytest.mark.parametrize("position", [0, 13, 39])
async def test_the_one_text_that_is_refused_is_named(setup: Setup, status: int, position: int) -> None:
    async def refuse(request: EmbedRequest, _: EmbedResponse) -> Answer:
        return problem(status, "texts[0]: over 256 tokens") if f"text {position}." in request.texts else None

    setup.server.answer = refuse
    with pytest.raises(TextRefused, match="over 256 tokens") as caught:
        await embed_all(setup.embedder, [f"text {n}." for n in range(40)], FINGERPRINT)
    assert caught.value.index == position


async def test_429_carries_its_retry_after(setup: Setup) -> None:
    async def throttle(request: EmbedRequest, _: EmbedResponse) -> Answer:
        return 429, {"retry-after": "17"}, b""

    setup.server.answer = throttle
    with pytest.raises(Unavailable) as caught:
        await setup.embedder.embed(["x"], FINGERPRINT)
    assert caught.value.retry_after == 17
    assert len(setup.server.requests) == 1, "a busy embedder is not asked again by halves"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda answer: answer.model_copy(update={"vectors": answer.vectors[:-1]}),
        lambda answer: answer.model_copy(update={"vectors": [pack_vector(b"\0" * 12)] * len(answer.vectors)}),
        lambda answer: answer.model_copy(
            update={"vectors": [pack_vector(np.full(384, np.nan, dtype="<f4").tobytes())] * len(answer.vectors)}
        ),
        lambda answer: answer.model_copy(
            update={"vectors": [pack_vector(np.zeros(384, dtype="<f4").tobytes())] * len(answer.vectors)}
        ),
        lambda answer: answer.model_copy(update={"fingerprint": "another"}),
    ],
    ids=["too-few", "dimension", "nan", "zero", "other-model"],
)
async def test_an_answer_that_cannot_be_used_is_transient(setup: Setup, spoil: object) -> None:
    async def answer(_: EmbedRequest, response: EmbedResponse) -> Answer:
        return 200, {}, spoil(response).model_dump_json().encode()  # type: ignore[operator]

    setup.server.answer = answer
    with pytest.raises(TransientError):
        await setup.embedder.embed(["x", "y"], FINGERPRINT)


@pytest.mark.parametrize(("status", "body"), [(500, b"oops"), (503, b""), (200, b"not json"), (200, b"{}")])
async def test_errors_and_nonsense_are_transient(setup: Setup, status: int, body: bytes) -> None:
    async def answer(request: EmbedRequest, _: EmbedResponse) -> Answer:
        return status, {}, body

    setup.server.answer = answer
    with pytest.raises(TransientError):
        await setup.embedder.embed(["x"], FINGERPRINT)


async def test_tokens_are_counted_to_the_end_although_the_tokenizer_would_cut(setup: Setup) -> None:
    models = HttpModelSource(setup.client)
    model = await models.current()
    assert model.count_tokens("word " * 300) == 300
    assert (model.fingerprint, model.dimension, model.max_tokens) == (FINGERPRINT, 384, 256)


async def test_a_tokenizer_that_cannot_be_read_is_transient(setup: Setup) -> None:
    setup.server.tokenizer = b"{}"
    with pytest.raises(TransientError, match="tokenizer"):
        await HttpModelSource(setup.client).current()
