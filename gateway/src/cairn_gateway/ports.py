"""What the gateway's use cases need of the world; `adapters/` has what fulfils it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

from cairn_gateway.model import Depth, Entry, IngestStateName, Lease, Principal, Vectors
from cairn_shared.api.ask import AskRequest
from cairn_shared.api.embedding import ModelInfo
from cairn_shared.api.index import (
    IndexedDocuments,
    IndexStatus,
    IngestCounts,
    LedgerEntry,
    PartVersion,
    SettledEvents,
    SilentAlerts,
)
from cairn_shared.api.search import SearchRequest, SearchResponse
from cairn_shared.events import Event


class Publisher(Protocol):
    """Kafka, as far as a publisher sees it."""

    async def publish(self, topic: str, key: bytes, value: bytes, headers: Sequence[tuple[str, bytes]]) -> None:
        """Return once the broker has acknowledged the record.

        Raises:
            TooLarge: it can never take this record.
            TransientError: it did not acknowledge it now (it may still have it).
        """
        ...


class RawPublisher(Protocol):
    """Kafka for records that were not made here: keys, values and headers may be missing."""

    async def publish(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
    ) -> None:
        """As `Publisher.publish`."""
        ...


class Spool(Protocol):
    """Events that wait in MongoDB for Kafka, and (where `settles`) for the index: the outbox or the inbox."""

    @property
    def name(self) -> str: ...

    @property
    def settles(self) -> bool:
        """Whether entries are kept until the index says what became of them."""
        ...

    async def add(self, events: Sequence[Event]) -> None:
        """Keep events durably; one that is there already stays as it is."""
        ...

    async def pending(self, limit: int) -> list[Entry]:
        """The oldest that are not on Kafka yet, in order."""
        ...

    async def mark_published(self, event_ids: Collection[uuid.UUID], term: int) -> None:
        """Kafka has them; `term` is that of the relay's lease."""
        ...

    async def refuse(self, event_id: uuid.UUID, detail: str) -> None:
        """Kafka can never take it."""
        ...

    async def due_for_check(self, limit: int) -> list[Entry]:
        """Published, not settled, and not asked for lately."""
        ...

    async def settle(self, outcomes: Mapping[uuid.UUID, IngestStateName]) -> None:
        """The index says what became of them."""
        ...

    async def check_later(self, event_ids: Collection[uuid.UUID]) -> None:
        """The index does not have them yet; the next look is later, the older they are."""
        ...

    async def publish_again(self, event_ids: Collection[uuid.UUID]) -> None:
        """Make them pending once more."""
        ...

    async def find(self, event_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Entry]:
        """Those that are known, by id."""
        ...

    async def depth(self) -> Depth: ...


class Leases(Protocol):
    """Leases by name. The store's clock decides, not the holders' clocks."""

    async def acquire(self, name: str, holder: str, seconds: float) -> Lease:
        """Take or renew the lease if it is free or ours; in any case the lease as it is now."""
        ...

    async def release(self, name: str, holder: str) -> None:
        """Let it go, if it is ours."""
        ...


class Ledger(Protocol):
    """What became of events. Raises `Unavailable("retriever")`."""

    async def ledger(self, event_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, LedgerEntry]: ...


class Versions(Protocol):
    """Which writes the index has. Raises `Unavailable("retriever")`."""

    async def versions(self, document_ids: Collection[uuid.UUID]) -> list[PartVersion]:
        """Of the parts of up to 1000 documents, those that are known."""
        ...


class Settlements(Protocol):
    """Which events came to an end, and when. Raises `Unavailable("retriever")`."""

    async def events(self, since: datetime | None, limit: int) -> SettledEvents:
        """The first events settled since then, or the last of all."""
        ...

    async def silent_alerts(self, since: datetime) -> SilentAlerts:
        """Alerts that fired since then and that no runbook is for."""
        ...

    async def ingest(self, since: datetime) -> IngestCounts:
        """Events settled since then, by hour, source and state."""
        ...


class VersionedIndex(Ledger, Versions, Protocol):
    """Both."""


class Audit(Protocol):
    """Where it is kept who did what. Raises TransientError when it cannot be kept."""

    async def note(self, who: Principal, action: str, target: str, detail: str = "") -> None:
        """`who` did `action` to `target`."""
        ...


class Index(Ledger, Protocol):
    """The retriever's view of the search index. Raises `Unavailable("retriever")`."""

    async def status(self) -> IndexStatus: ...

    async def documents(
        self, source: str, after: uuid.UUID | None, limit: int, *, words: bool = False
    ) -> IndexedDocuments:
        """A page of what it holds; with `words` its words are compared with their texts, which takes time."""
        ...

    async def wrong_vectors(self, source: str) -> dict[str, int]:
        """How many chunks have the vector of another text, by external id; takes as long as to embed all of them."""
        ...


class Searcher(Protocol):
    """The retriever's search."""

    async def search(self, request: SearchRequest) -> SearchResponse: ...


class Answerer(Protocol):
    """The answerer. Raises `Unavailable("answerer")`, or `Overloaded` where it is only busy."""

    async def ask(self, request: AskRequest, seconds: float) -> bytes:
        """An `AskResponse` as JSON, within `seconds`."""
        ...

    def stream(self, request: AskRequest, seconds: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Server-sent events as they come; leaving the context cancels the question."""
        ...


class Embedder(Protocol):
    """The embedder. Raises `Unavailable("embedder")`."""

    async def model(self) -> ModelInfo: ...

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of texts, as many as there are.

        Raises:
            InvalidInput: a text is too long or blank; `input.N` names it.
        """
        ...


class Receipts(Protocol):
    """A short memory of when events were accepted first. Best effort: never raises."""

    async def remember(self, accepted: Mapping[uuid.UUID, datetime]) -> None: ...

    async def recall(self, event_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, datetime]: ...


class Resolves(Protocol):
    """Who said last of a thing that it is over. Best effort: never raises."""

    async def remember(self, senders: Mapping[str, str]) -> None:
        """The sender of each subject."""
        ...

    async def recall(self, subjects: Collection[str]) -> dict[str, str]: ...


class Names(Protocol):
    """What the numbers in a source's addresses stand for."""

    async def remember(self, source: str, names: Mapping[str, str]) -> None:
        """Best effort: never raises."""
        ...

    async def recall(self, source: str, numbers: Collection[str]) -> dict[str, str]:
        """Those that are known.

        Raises:
            TransientError: MongoDB is away.
        """
        ...


class KeyDirectory(Protocol):
    """Who owns an API key."""

    async def find_key(self, key_hash: str) -> Principal | None: ...


class Limiter(Protocol):
    """Requests by key."""

    async def check(self, principal: Principal) -> None:
        """Count one request.

        Raises:
            TooManyRequests: over the limit.
        """
        ...


Wake = Callable[[], None]
"""Tells the relay of this process that there may be something to publish."""
