"""A small cross-encoder with random weights behind POST /rerank."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import httpx
import numpy as np
import pytest
from sentence_transformers import CrossEncoder
from tiny_models import cross_encoder

from cairn_embedder.app import create_app
from cairn_embedder.model import Kind, Tokens, Vector
from cairn_embedder.settings import EmbedderSettings
from cairn_shared.api.embedding import ModelInfo
from cairn_shared.api.reranking import RerankRequest
from cairn_shared.embedder_client import EmbedderClient
from cairn_shared.errors import NotFound


class Quiet:
    """An embedding model that nobody asks."""

    info = ModelInfo(name="quiet", revision="1", dimension=2, max_tokens=16, special_tokens=2, fingerprint="quiet@1")
    tokenizer_json = "{}"

    def tokenize(self, texts: Sequence[str], kind: Kind) -> list[Tokens]:
        return [Tokens((1, len(text), 2), 3) for text in texts]

    def encode(self, batch: Sequence[Sequence[int]]) -> Vector:
        return np.tile(np.array([1, 0], dtype=np.float32), (len(batch), 1))


PASSAGES = ["free space on a full volume", "knead the dough", "disk full " * 200]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cross_encoder(tmp_path_factory.mktemp("reranker"))


@pytest.fixture
async def client(folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    settings = EmbedderSettings.model_validate({"port": 0, "reranker_model": str(folder), "reranker_max_tokens": 48})
    app = create_app(settings, Quiet)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://embedder") as client,
    ):
        async with asyncio.timeout(60):
            while (await client.get("/health/ready")).status_code != 200:
                await asyncio.sleep(0.02)
        yield client


async def test_scores_are_the_models_in_the_order_of_the_passages(client: httpx.AsyncClient, folder: Path) -> None:
    scores = await EmbedderClient(client).rerank(RerankRequest(query="disk full", passages=PASSAGES))
    model = CrossEncoder(str(folder), device="cpu", max_length=48)
    alone = [float(model.predict([("disk full", passage)], show_progress_bar=False)[0]) for passage in PASSAGES]
    assert scores == pytest.approx(alone, abs=1e-5)
    assert all(0 <= score <= 1 for score in scores)
    assert len(set(scores)) == 3


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"query": "", "passages": ["a"]}, "query"),
        ({"query": "a", "passages": []}, "passages"),
        ({"query": "a", "passages": ["a"] * 65}, "passages"),
        ({"query": "a", "passages": ["a" * 16_385]}, "passages.0"),
    ],
)
async def test_a_bad_body_names_its_field(client: httpx.AsyncClient, body: dict[str, object], field: str) -> None:
    answer = await client.post("/rerank", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


async def test_without_a_reranker_there_is_none() -> None:
    app = create_app(EmbedderSettings.model_validate({"port": 0}), Quiet)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://embedder") as client,
    ):
        with pytest.raises(NotFound, match="RERANKER_MODEL"):
            await EmbedderClient(client).rerank(RerankRequest(query="a", passages=["b"]))
