"""Which texts need a vector, and getting them: each text once, in bounded requests, halved where they are too much."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cairn_ingest_consumer.errors import TextRefused
from cairn_ingest_consumer.model import PreparedPart, Vector
from cairn_ingest_consumer.ports import Embedder
from cairn_shared.kafka.progress import still_working

TEXTS_PER_REQUEST = 16
"""Few enough to be done well within the time-out on a slow machine; what was embedded before a request that fails is
in the embedder's cache when the batch is tried again."""


def missing_texts(parts: Iterable[PreparedPart], known: Mapping[str, Vector]) -> dict[str, str]:
    """Texts without a vector, by their SHA-256, each once."""
    return {
        chunk.embed_sha: chunk.embed_text
        for part in parts
        for step in part.steps or ()
        for chunk in step.chunks
        if chunk.embed_sha not in known
    }


async def embed_all(embedder: Embedder, texts: Sequence[str], fingerprint: str) -> list[Vector]:
    """Vectors of `texts`, in order. One request after another: the embedder batches across its clients.

    Raises:
        TextRefused: the embedder refuses a text for good; `index` counts in `texts`.
        TransientError: it is away, or has another model than `fingerprint` now.
    """
    vectors: list[Vector] = []
    for start in range(0, len(texts), TEXTS_PER_REQUEST):
        try:
            vectors += await embedder.embed(texts[start : start + TEXTS_PER_REQUEST], fingerprint)
        except TextRefused as exc:
            raise TextRefused(start + exc.index, exc.detail) from exc
        still_working()
    return vectors
