"""`/v1/models` and `/v1/embeddings` as the official client sees them, with the real model behind."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import httpx
import openai
import pytest

from cairn_gateway.settings import GatewaySettings

if TYPE_CHECKING:
    from gateway.tests.edge.compat.conftest import ConnectAi

Start = Callable[[GatewaySettings], AbstractAsyncContextManager[httpx.AsyncClient]]
LAG = "the replica lags behind the primary"


@pytest.fixture
async def client(
    start_gateway: Start, gateway_settings: GatewaySettings, embedder_url: str
) -> AsyncIterator[httpx.AsyncClient]:
    """A gateway with an embedder."""
    async with start_gateway(gateway_settings.model_copy(update={"embedder_url": embedder_url})) as opened:
        yield opened


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


async def test_texts_become_vectors_in_both_encodings(ai: openai.AsyncOpenAI) -> None:
    models = {model.id: model async for model in ai.models.list()}
    (name,) = set(models) - {"cairn"}
    assert name.endswith("all-MiniLM-L6-v2")
    about = (models[name].model_extra or {})["cairn"]
    assert (about["dimension"], models["cairn"].owned_by, models["cairn"].object) == (384, "cairn", "model")
    assert (await ai.models.retrieve(name)).id == name

    texts = [LAG, "replication delay grows on the standby", "the coffee machine needs descaling"]
    given = await ai.embeddings.create(model=name, input=texts)  # the client asks for base64 and decodes it
    vectors = [item.embedding for item in given.data]
    assert [item.index for item in given.data] == [0, 1, 2]
    assert all(len(vector) == 384 and math.isclose(cosine(vector, vector), 1, abs_tol=1e-3) for vector in vectors)
    assert cosine(vectors[0], vectors[1]) > 0.5 > cosine(vectors[0], vectors[2])
    assert (given.model, given.usage.prompt_tokens == given.usage.total_tokens > 12) == (name, True)

    numbers = await ai.embeddings.create(model=name, input=LAG, encoding_format="float")
    assert numbers.data[0].embedding == pytest.approx(vectors[0], abs=1e-6)
    short = await ai.embeddings.create(model=name.rpartition("/")[2], input=LAG, dimensions=384)
    assert short.data[0].embedding == pytest.approx(vectors[0], abs=1e-6)


async def test_more_texts_than_the_embedder_takes_at_once_come_back_in_order(ai: openai.AsyncOpenAI) -> None:
    texts = [f"host{number % 5}" for number in range(260)]
    given = await ai.embeddings.create(model="all-MiniLM-L6-v2", input=texts)
    assert [item.index for item in given.data] == list(range(260))
    assert given.data[258].embedding == given.data[3].embedding != given.data[4].embedding
    texts[259] = "word " * 2000
    with pytest.raises(openai.BadRequestError, match=r"input\.259 has .* tokens") as refused:
        await ai.embeddings.create(model="all-MiniLM-L6-v2", input=texts)
    assert refused.value.param == "input.259"


async def test_what_cannot_be_embedded_is_refused(ai: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="tokens are not understood") as tokens:
        await ai.embeddings.create(model="all-MiniLM-L6-v2", input=[[1, 2], [3]])
    assert tokens.value.param == "input"
    with pytest.raises(openai.NotFoundError, match="all-MiniLM-L6-v2") as unknown:
        await ai.embeddings.create(model="text-embedding-3-small", input=LAG)
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError, match="384"):
        await ai.embeddings.create(model="all-MiniLM-L6-v2", input=LAG, dimensions=256)
    with pytest.raises(openai.NotFoundError):
        await ai.models.retrieve("gpt-4o")


async def test_the_status_page_has_the_embedder_where_there_is_one(client: httpx.AsyncClient) -> None:
    assert (await client.get("/status")).json()["dependencies"]["embedder"] == "ok"


@pytest.mark.parametrize(
    ("address", "message"), [(None, "EMBEDDER_URL is not set"), ("http://127.0.0.1:1", "embedder")]
)
async def test_without_an_embedder_the_rest_works(
    start_gateway: Start, gateway_settings: GatewaySettings, connect_ai: ConnectAi, address: str | None, message: str
) -> None:
    async with (
        start_gateway(gateway_settings.model_copy(update={"embedder_url": address})) as gateway,
        connect_ai(gateway) as ai,
    ):
        with pytest.raises(openai.InternalServerError, match=message) as away:
            await ai.embeddings.create(model="all-MiniLM-L6-v2", input=LAG)
        assert (away.value.status_code, away.value.code) == (503, "service_unavailable")
        assert away.value.response.headers["retry-after"]
        assert [model.id async for model in ai.models.list()] == ["cairn"]
        completion = await ai.chat.completions.create(model="cairn", messages=[{"role": "user", "content": LAG}])
        assert completion.choices[0].message.content == "Restart it."


async def test_requests_of_a_key_are_limited_as_everywhere(
    start_gateway: Start, gateway_settings: GatewaySettings, connect_ai: ConnectAi
) -> None:
    limited = gateway_settings.model_copy(update={"rate_limit_per_minute": 1, "rate_limit_burst": 2})
    async with start_gateway(limited) as gateway, connect_ai(gateway) as ai:
        await ai.models.list()
        await ai.models.list()
        with pytest.raises(openai.RateLimitError) as refused:
            await ai.models.list()
        assert (refused.value.code, refused.value.type) == ("rate_limit_exceeded", "rate_limit_error")
        assert int(refused.value.response.headers["retry-after"]) >= 1
