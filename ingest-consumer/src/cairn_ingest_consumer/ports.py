"""What ingest needs from outside."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from cairn_ingest_consumer.collapse import Register
from cairn_ingest_consumer.expansion import Page, Question
from cairn_ingest_consumer.model import (
    Delivery,
    Filled,
    KnownPart,
    LedgerNote,
    PreparedPart,
    Space,
    Vector,
    Vectors,
    WriteResult,
)
from cairn_shared.kafka.dead_letters import Failure
from cairn_shared.kafka.records import Record


class EventHandler(Protocol):
    """What is done with the events of some types. New types are served by adding a handler in `app.py`."""

    async def handle(self, deliveries: Sequence[Delivery]) -> None:
        """Do what the events say; return when it is durable and stands in the ledger.

        Called again with the same deliveries, or some of them, after any failure.

        Raises:
            Rejected: these deliveries can never succeed; nothing of the batch was written.
            PermanentError: one of them can never succeed, it is not known which.
            TransientError: trying later may help.
        """
        ...


class DocumentStore(Protocol):
    """The index."""

    async def known_parts(self, keys: Iterable[Register]) -> dict[Register, KnownPart]: ...

    async def vectors(self, document_ids: Iterable[uuid.UUID], space: Space) -> dict[str, Vector]:
        """Vectors of one model that these documents have now, by the SHA-256 of the text that they are of."""
        ...

    async def write(
        self,
        parts: Sequence[PreparedPart],
        vectors: Mapping[str, Vectors],
        active: str | None,
        notes: Sequence[LedgerNote],
    ) -> WriteResult:
        """Write all of it or nothing, in one transaction; parts that are no news any more are passed over.

        `vectors` are by fingerprint. A space for which a changed chunk has none loses that chunk's old one: a vector is
        always of its chunk's present text. `active` is the fingerprint that searches used when the vectors were made.

        Raises:
            ContentMoved: a part whose content was thought to be there has other content now, or searches use another
                model now.
            PermanentError: PostgreSQL refuses the data.
            TransientError: PostgreSQL is away, or a vector cannot be of its space.
        """
        ...


class Ledger(Protocol):
    """Where the end of an event that was not indexed is noted."""

    async def dead(self, record: Record, event_id: uuid.UUID | None, detail: str) -> None: ...


class Attempts(Protocol):
    """How often each record was begun without an end, across crashes of the process."""

    async def begin(self, records: Sequence[Record]) -> dict[int, int]:
        """Count one more attempt, before it is made; returns the counts by offset, this attempt included."""
        ...

    async def forgive(self, records: Sequence[Record]) -> None:
        """Take the last attempt back: it ended, and not by a crash."""
        ...

    async def end(self, records: Sequence[Record]) -> None:
        """Forget the records: they are done."""
        ...


class DeadLetters(Protocol):
    """Where records go that cannot be processed."""

    async def send(self, record: Record, failure: Failure) -> None:
        """Returns when the dead letter is acknowledged.

        Raises:
            TransientError: it is not, so the record must not count as done.
        """
        ...


@dataclass(frozen=True)
class EmbeddingModel:
    """The embedder's model as far as chunking needs it."""

    fingerprint: str
    dimension: int
    max_tokens: int
    count_tokens: Callable[[str], int]
    name: str = ""
    storage: Literal["vector", "halfvec"] | None = None
    """How its vectors are to be kept; None: as their number of dimensions suggests."""


class ModelSource(Protocol):
    """Tells which model the embedder has loaded."""

    async def current(self) -> EmbeddingModel: ...

    async def refresh(self) -> None:
        """Ask whether it is still the same; nothing happens when the embedder is away."""
        ...

    def forget(self) -> None:
        """Ask the embedder again next time."""
        ...


class Embedder(Protocol):
    """Texts to vectors."""

    async def embed(self, texts: Sequence[str], fingerprint: str) -> list[Vector]:
        """Vectors of unit length in the order of `texts`, of the model with this fingerprint.

        Raises:
            TextRefused: the embedder refuses one text for good.
            TransientError: it is away, its answer cannot be used, or it has another model.
        """
        ...


class Spaces(Protocol):
    """The vectors of each model, in a table of their own."""

    async def all(self) -> list[Space]:
        """Every space that there ever was, the oldest first. Raises TransientError."""
        ...

    async def open(self, model: EmbeddingModel) -> None:
        """Make a space for a model that has none; the very first becomes the one that searches use.

        Raises:
            TransientError: PostgreSQL is away, or cannot index vectors of so many dimensions.
        """
        ...


EmbedTexts = Callable[[Mapping[str, str]], Awaitable[Mapping[str, Vector]]]
"""Texts to vectors, both by the text's SHA-256; a text that has no vector is left out."""


class FillableSpaces(Protocol):
    """The same, for who fills them afterwards. Every method raises TransientError when PostgreSQL is away."""

    async def fill(self, space: Space, after: uuid.UUID, limit: int, embed: EmbedTexts) -> Filled | None:
        """Embed the next chunks without a vector, in the order of their ids, and write the vectors.

        None when another replica is at it, or when there is no such chunk. A chunk that is being written, or was since
        its text was read, is left for the next round. Raises whatever `embed` raises.
        """
        ...

    async def missing(self, space: Space) -> int:
        """Chunks without a vector."""
        ...

    async def note(self, space: Space, problem: str | None) -> None:
        """Show why it does not get complete."""
        ...

    async def switch(self, space: Space) -> bool:
        """Let searches use it, if it is still building and every chunk has its vector: both seen under a lock."""
        ...


class QuestionModel(Protocol):
    """A chat model."""

    async def write(self, system: str, user: str, seconds: float) -> str:
        """Its answer, whole, within `seconds`.

        Raises:
            NothingUsable: it refuses the request, takes too long, or its answer is no text.
            TransientError: it is away, wants patience, or refuses the key.
        """
        ...


class ExpansionStore(Protocol):
    """Questions made of runbooks. Every method raises TransientError when PostgreSQL is away."""

    async def take(self, attempts: int, lease: float) -> Page | None:
        """A runbook without questions that is due and was tried less than `attempts` times; for `lease` seconds
        nobody else gets it.
        """
        ...

    async def keep(self, page: Page, questions: Sequence[Question]) -> bool:
        """Write the questions of `page`; False, and nothing is written, when its content or run is another by now."""
        ...

    async def failed(self, page: Page, problem: str) -> int:
        """Note that nothing usable came; how often so far."""
        ...

    async def postpone(self, page: Page, until: datetime) -> None:
        """Give it back, not to be taken before."""
        ...

    async def without_vector(self, fingerprint: str, limit: int) -> dict[uuid.UUID, str]:
        """Questions that have no vector of this model."""
        ...

    async def give(self, fingerprint: str, vectors: Mapping[uuid.UUID, Vector]) -> None:
        """Write vectors of questions, of those that are still there."""
        ...

    async def forget(self, expansion_id: uuid.UUID) -> None:
        """Delete a question."""
        ...

    async def counts(self, attempts: int) -> dict[str, int]:
        """Runbooks by state: done, waiting, given_up."""
        ...
