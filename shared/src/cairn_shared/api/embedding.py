"""The embedder's API: `POST /embed`, `GET /model`, `GET /model/tokenizer` (the tokenizer.json)."""

from __future__ import annotations

import base64
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_TEXTS = 256


class EmbedRequest(BaseModel):
    """Texts to embed. A text over the model's limit is refused (422 naming `texts[i]`) unless `truncate`."""

    model_config = ConfigDict(extra="forbid")

    texts: Annotated[list[str], Field(min_length=1, max_length=MAX_TEXTS)]
    kind: Annotated[Literal["query", "passage"], Field(description="Queries go ahead of bulk ingest.")] = "passage"
    truncate: Annotated[bool, Field(description="Cut over-long texts, and say so in `truncated`.")] = False


class EmbedResponse(BaseModel):
    """`vectors[i]` is base64 of `dimension` little-endian float32, of unit length."""

    fingerprint: str
    dimension: int
    vectors: list[str]
    tokens: list[int]
    truncated: list[bool]


class ModelInfo(BaseModel):
    """The embedding model. Vectors of different fingerprints must never be compared."""

    name: str
    revision: str
    dimension: int
    max_tokens: Annotated[
        int, Field(description="Longest text in tokens, special tokens included, the model's prefix not.")
    ]
    special_tokens: Annotated[int, Field(description="Tokens that the model adds to every input.")]
    prompt_tokens: Annotated[int, Field(description="Most tokens that the model's prefix takes.")] = 0
    storage: Annotated[
        Literal["vector", "halfvec"] | None,
        Field(description="How the index keeps vectors; none: `vector` up to 512 dimensions, `halfvec` above."),
    ] = None
    fingerprint: str


def pack_vector(raw: bytes) -> str:
    """Little-endian float32 bytes as base64."""
    return base64.b64encode(raw).decode()


def unpack_vector(text: str) -> bytes:
    """The bytes that `pack_vector` was given."""
    return base64.b64decode(text, validate=True)
