"""What the embedder needs from the outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cairn_embedder.model import Kind, Tokens, Vector
from cairn_shared.api.embedding import ModelInfo
from cairn_shared.errors import CairnError


class Reading(Protocol):
    """How a model reads text. `tokenize` blocks, and may run in any thread."""

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


class Encoder(Reading, Protocol):
    """A loaded model."""

    def encode(self, batch: Sequence[Sequence[int]]) -> Vector:
        """Vectors of shape (len(batch), dimension), of unit length unless the model fails on a text.

        Blocks, and may run in one thread at a time.
        """
        ...


class Engine(Protocol):
    """What turns texts that were read into vectors: a model in this process, or an endpoint elsewhere."""

    @property
    def is_healthy(self) -> bool:
        """Whether the last text that should have worked did."""
        ...

    async def submit(self, texts: Sequence[Tokens], kind: Kind) -> list[Vector | CairnError]:
        """The vector of each text, of unit length, or the error of those that have none. Cancelling takes them back.

        Raises:
            TransientError: too much is waiting, or the endpoint is away.
        """
        ...

    async def run(self) -> None:
        """Work until cancelled; without it `submit` need not return."""
        ...


class VectorCache(Protocol):
    """Vectors by text. It never raises: without it everything works, slower."""

    async def get(self, texts: Sequence[str], kind: Kind) -> list[Vector | None]:
        """The known vectors, in order."""
        ...

    def put(self, texts: Sequence[str], kind: Kind, vectors: Sequence[Vector]) -> None:
        """Remember vectors; returns at once."""
        ...


class Scorer(Protocol):
    """A loaded reranker."""

    @property
    def name(self) -> str:
        """The model."""
        ...

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """How well each passage answers the query, in [0, 1]. Blocks, and may run in one thread at a time."""
        ...
