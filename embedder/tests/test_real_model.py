"""The real all-MiniLM-L6-v2, offline: its vectors, its limit, and that company does not change a vector."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx
import numpy as np
import pytest
from tokenizers import Tokenizer

from cairn_embedder.adapters.sentence_transformer import ModelChoice, SentenceTransformerEncoder, load
from cairn_embedder.model import Vector
from cairn_shared.api.embedding import EmbedRequest
from cairn_shared.embedder_client import EmbedderClient, open_client
from cairn_shared.errors import InvalidInput

SENTENCES = [
    "How do I recover a PostgreSQL replica that has fallen behind on WAL?",
    "Rebuild the standby with pg_basebackup when its WAL was already removed.",
    "The Redis cluster refuses writes because maxmemory was reached.",
    "Bake the cake for forty minutes.",
    "kubectl get pods -n production",
    "a",
    "word " * 200,
]


@pytest.fixture(scope="module")
def encoder() -> SentenceTransformerEncoder:
    return load(ModelChoice("all-MiniLM-L6-v2", threads=1))


@pytest.fixture
async def embedder(embedder_url: str) -> AsyncIterator[EmbedderClient]:
    async with open_client(embedder_url, 30) as client:
        yield EmbedderClient(client)


def vectors(encoder: SentenceTransformerEncoder, *texts: str) -> Vector:
    return encoder.encode([tokens.ids for tokens in encoder.tokenize(texts, "passage")])


def test_the_model_is_what_it_says(encoder: SentenceTransformerEncoder) -> None:
    info = encoder.info
    assert (info.dimension, info.max_tokens, info.special_tokens) == (384, 256, 2)
    assert info.fingerprint == "all-MiniLM-L6-v2@" + info.fingerprint.split("@")[1]
    assert info.fingerprint.endswith(":float32:mean:256")


def test_vectors_agree_with_sentence_transformers(encoder: SentenceTransformerEncoder) -> None:
    reference = encoder._model.encode(SENTENCES, normalize_embeddings=True, show_progress_bar=False)
    ours = vectors(encoder, *SENTENCES)
    assert float(np.min(np.sum(ours * reference, axis=1))) > 0.99999


def test_similarities_published_with_the_model(encoder: SentenceTransformerEncoder) -> None:
    """The example of sbert.net's quick start for this model: 0.6660, 0.1046 and 0.1411."""
    weather, outside, stadium = vectors(
        encoder,
        "The weather is lovely today.",
        "It's so sunny outside!",
        "He drove to the stadium.",
    )
    assert float(weather @ outside) == pytest.approx(0.6660, abs=2e-3)
    assert float(weather @ stadium) == pytest.approx(0.1046, abs=2e-3)
    assert float(outside @ stadium) == pytest.approx(0.1411, abs=2e-3)


def test_vectors_do_not_depend_on_their_company(encoder: SentenceTransformerEncoder) -> None:
    together = vectors(encoder, *SENTENCES)
    for text, vector in zip(SENTENCES, together, strict=True):
        alone = vectors(encoder, text)[0]
        assert float(alone @ vector) > 0.99999
        assert float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-5)


def test_the_limit_of_128_in_the_tokenizer_file_does_not_apply(encoder: SentenceTransformerEncoder) -> None:
    head = "word " * 150
    one, other = vectors(encoder, head + "replica", head + "cake")
    assert float(one @ other) < 0.9999
    assert encoder.tokenize([head], "passage")[0].count == 152


def test_a_cut_text_keeps_its_last_special_token(encoder: SentenceTransformerEncoder) -> None:
    (cut,) = encoder.tokenize(["word " * 400], "passage")
    assert cut.truncated
    assert (len(cut.ids), cut.count) == (256, 402)
    assert cut.ids[-1] == encoder.tokenize(["a"], "passage")[0].ids[-1]


def test_loading_again_gives_the_same_fingerprint_and_another_dtype_another(
    encoder: SentenceTransformerEncoder,
) -> None:
    half = load(ModelChoice("sentence-transformers/all-MiniLM-L6-v2", dtype="bfloat16", threads=1))
    assert half.info.fingerprint == encoder.info.fingerprint.replace("float32", "bfloat16")
    ours, theirs = vectors(encoder, *SENTENCES), vectors(half, *SENTENCES)
    assert 0.99 < float(np.min(np.sum(ours * theirs, axis=1))) < 1


def test_a_lower_limit_is_part_of_the_fingerprint(encoder: SentenceTransformerEncoder) -> None:
    short = load(ModelChoice("all-MiniLM-L6-v2", max_tokens=128, threads=1))
    assert short.info.max_tokens == 128
    assert short.info.fingerprint != encoder.info.fingerprint


class TestService:
    async def test_texts_to_vectors_over_http(
        self, embedder: EmbedderClient, encoder: SentenceTransformerEncoder
    ) -> None:
        answer = await embedder.embed(EmbedRequest(texts=SENTENCES))
        assert answer.fingerprint == encoder.info.fingerprint
        assert float(np.min(np.sum(answer.vectors * vectors(encoder, *SENTENCES), axis=1))) > 0.99999

    async def test_related_texts_are_nearer_than_others(self, embedder: EmbedderClient) -> None:
        question = await embedder.embed(EmbedRequest(texts=SENTENCES[:1], kind="query"))
        passages = await embedder.embed(EmbedRequest(texts=SENTENCES[1:4]))
        near, other, far = passages.vectors @ question.vectors[0]
        assert near > other > far

    async def test_an_over_long_text_is_refused_or_flagged(self, embedder: EmbedderClient) -> None:
        with pytest.raises(InvalidInput, match="402 tokens, the limit is 256") as caught:
            await embedder.embed(EmbedRequest(texts=["ok", "word " * 400]))
        assert caught.value.field == "texts[1]"
        answer = await embedder.embed(EmbedRequest(texts=["ok", "word " * 400], truncate=True))
        assert answer.truncated == [False, True]

    async def test_its_tokenizer_counts_as_it_does(self, embedder_url: str, embedder: EmbedderClient) -> None:
        async with httpx.AsyncClient(base_url=embedder_url, trust_env=False) as client:
            raw = (await client.get("/model/tokenizer")).text
        assert json.loads(raw)["truncation"] is None
        tokenizer = Tokenizer.from_str(raw)
        answer = await embedder.embed(EmbedRequest(texts=SENTENCES))
        assert [len(encoding.ids) for encoding in tokenizer.encode_batch(SENTENCES)] == answer.tokens
