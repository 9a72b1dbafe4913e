"""What the embedder needs from the outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cairn_embedder.model import Kind, Tokens, Vector
from cairn_shared.api.embedding import ModelInfo


class Encoder(Protocol):
    """A loaded model. Both methods block; `tokenize` may run in any thread, `encode` in one at a time."""

    @property
    def info(self) -> ModelInfo:
        """What the model is."""
        ...

    @property
    def tokenizer_json(self) -> str:
        """The tokenizer as `tokenizer.json`, without truncation and padding."""
        ...

    def tokenize(self, texts: Sequence[str], kind: Kind) -> list[Tokens]:
        """The tokens of each text, its prompt for `kind` included; those over the limit are cut and say so."""
        ...

    def encode(self, batch: Sequence[Sequence[int]]) -> Vector:
        """Vectors of shape (len(batch), dimension), of unit length unless the model fails on a text."""
        ...


class VectorCache(Protocol):
    """Vectors by text. It never raises: without it everything works, slower."""

    async def get(self, texts: Sequence[str], kind: Kind) -> list[Vector | None]:
        """The known vectors, in order."""
        ...

    def put(self, texts: Sequence[str], kind: Kind, vectors: Sequence[Vector]) -> None:
        """Remember vectors; returns at once."""
        ...
