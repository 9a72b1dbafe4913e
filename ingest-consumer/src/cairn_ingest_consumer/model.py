"""The values that ingest works with, from an event to rows. No I/O."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import numpy as np
import numpy.typing as npt

from cairn_shared.events import Event
from cairn_shared.kafka.records import Record

Vector = npt.NDArray[np.float32]
Vectors = Mapping[str, Vector]
"""Vectors of one model, by the SHA-256 of the text that they are of."""
Outcome = Literal["searchable", "superseded"]
SpaceState = Literal["active", "building", "retired", "dropped"]

PIPELINE = "0001"
"""Version of rendering and chunking. A higher one (compared as text) writes the same version of a part again."""

MAIN_PART = ""


@dataclass(frozen=True)
class Delivery:
    """A record and the event in it."""

    record: Record
    event: Event


@dataclass(frozen=True)
class StepDraft:
    """A step before it is cut into windows. `number` counts from 1 within its part.

    `mentions` are texts that stand outside the body and whose identifiers should find it all the same.
    """

    number: int
    label: str
    section: str
    body: str
    line_start: int | None = None
    line_end: int | None = None
    mentions: tuple[str, ...] = ()


@dataclass(frozen=True)
class DocumentFacts:
    """What is shown of and filtered by on a document; blank for a deleted one."""

    title: str = ""
    service: str | None = None
    severity: str | None = None
    owner: str | None = None
    status: str | None = None
    tags: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    path: str | None = None
    commit_sha: str | None = None
    blob_sha: str | None = None
    url: str | None = None


@dataclass(frozen=True, order=True)
class Rank:
    """What decides between two writes of one part: what the source says, then which came later, then the event's id.

    All three are in the event, so any order of deliveries ends the same way.
    """

    version: int
    arrived: int
    event_id: uuid.UUID


@dataclass(frozen=True)
class PartWrite:
    """One write of one part of one document, as its event says it."""

    document_id: uuid.UUID
    part: str
    rank: Rank
    kind: str
    source: str
    external_id: str
    deleted: bool
    facts: DocumentFacts
    steps: tuple[StepDraft, ...]
    content_sha: str
    occurred_at: datetime
    accepted_at: datetime
    count: int = 1
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    rewrite: bool = False
    """What the index holds of it is wrong, whatever it says of itself: write everything anew."""

    @property
    def key(self) -> tuple[uuid.UUID, str]:
        """The register that this write goes to."""
        return self.document_id, self.part

    @property
    def decays_from(self) -> datetime | None:
        """When chunks of this write begin to age: runbooks never do, so an edit leaves their unchanged chunks alone."""
        return None if self.kind == "runbook" else self.occurred_at


@dataclass(frozen=True)
class KnownPart:
    """What the index holds of a part."""

    rank: Rank
    pipeline: str
    content_sha: str
    deleted: bool


@dataclass(frozen=True)
class ChunkDraft:
    """A window ready to be written; its vector is found by `embed_sha`."""

    chunk_id: uuid.UUID
    ordinal: int
    text: str
    embed_text: str
    embed_sha: str
    n_tokens: int


@dataclass(frozen=True)
class PreparedStep:
    """A step with its windows."""

    step_id: uuid.UUID
    draft: StepDraft
    content_sha: str
    identifiers: tuple[str, ...]
    chunks: tuple[ChunkDraft, ...]


@dataclass(frozen=True)
class PreparedPart:
    """A write with its content. `steps` is None when the index holds this very content already."""

    write: PartWrite
    steps: tuple[PreparedStep, ...] | None


@dataclass(frozen=True)
class LedgerNote:
    """What is told of one event: `outcome` None means that the write decides (won: searchable, else superseded)."""

    delivery: Delivery
    document_id: uuid.UUID
    part: str
    outcome: Outcome | None


@dataclass(frozen=True)
class WriteResult:
    """How a transaction ended: the outcome of every event, and whether the corpus' epoch grew."""

    outcomes: dict[uuid.UUID, Outcome]
    epoch_grew: bool
    vectors_written: int


@dataclass(frozen=True)
class Space:
    """Where the vectors of one model are. Searches use the active one; one that is building becomes active."""

    fingerprint: str
    model: str
    dimension: int
    table: str | None
    """None when it was dropped."""
    state: SpaceState
    problem: str | None = None


@dataclass(frozen=True)
class Filled:
    """One batch: chunks that were without a vector, those that have one now, and after which one the next begins."""

    seen: int
    written: int
    last: uuid.UUID
