"""Bodies of `/ingest`, `/verify`, `/status` and `/admin`."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from cairn_gateway.model import IngestStateName
from cairn_gateway.schemas.base import Body
from cairn_shared.api.index import IndexStatus

MAX_STATES = 1000


class IngestState(BaseModel):
    """How far an event has come.

    accepted: durable, waiting for Kafka. queued: on Kafka. searchable, superseded (a newer version is), dead: the end.
    """

    event_id: uuid.UUID
    state: IngestStateName
    type: str | None = None
    source: str | None = None
    subject: str | None = None
    version: int | None = None
    document_id: uuid.UUID | None = None
    accepted_at: datetime | None = None
    published_at: datetime | None = None
    settled_at: datetime | None = None
    attempts: int | None = None
    detail: str | None = None


class StatesBody(Body):
    """Events to ask for."""

    event_ids: Annotated[list[uuid.UUID], Field(max_length=MAX_STATES)]


class StatesAnswer(BaseModel):
    """States by event id; `unknown` are those that nobody knows."""

    states: dict[str, IngestState]
    unknown: list[uuid.UUID]


class VerifyBody(Body):
    """`repair` publishes differences again; changes younger than `grace_seconds` count as on their way."""

    repair: bool = False
    vectors: Annotated[bool, Field(description="Embed every text again: finds vectors of another text.")] = False
    grace_seconds: Annotated[float | None, Field(ge=0, le=86_400)] = None


class DifferenceView(BaseModel):
    """One runbook that the index holds otherwise."""

    runbook_id: str
    revision: int | None
    indexed_version: int | None


class VerifyAnswer(BaseModel):
    """`ok` when there is no difference. The kinds are explained in `cairn_gateway.reconcile.Differences`."""

    ok: bool
    checked: Annotated[int, Field(description="Runbooks that there are.")]
    tombstones: Annotated[int, Field(description="Deleted runbooks; compared as well.")]
    indexed: Annotated[int, Field(description="Runbooks in the index, deleted ones not counted.")]
    counts: dict[str, int]
    differences: dict[str, list[DifferenceView]]
    pending: list[str]
    repaired: list[str]


class QueueStatus(BaseModel):
    """How much waits in the outbox or the inbox."""

    pending: int
    unsettled: int
    refused: int
    oldest_seconds: float


class DeadLetterStatus(BaseModel):
    """Dead letters that somebody has to look at, and those on their way through the consumer again."""

    open: int
    replaying: int
    oldest_seconds: Annotated[float, Field(description="Since the oldest open one failed first.")]
    halted: Annotated[list[str], Field(description="Partitions on which consumption stopped: topic[partition].")]


class PartitionStatus(BaseModel):
    """A partition that a consumer has: records not yet done, and the age of the oldest in hand."""

    topic: str
    partition: int
    lag: int
    seconds: float = 0.0
    paused: bool = False


class AnswerStatus(BaseModel):
    """An answerer since it began; of several replicas the one that was asked."""

    circuit: Annotated[
        Literal["closed", "half-open", "open"] | None, Field(description="Open: the model is not asked for a while.")
    ]
    cache_hit_rate: Annotated[float | None, Field(description="Of the questions that could have been cached.")]
    modes: Annotated[dict[str, int], Field(description="Answers by mode.")]


class StatusAnswer(BaseModel):
    """How Cairn is. `dependencies` says `ok` or what is wrong; a part that cannot be asked is null."""

    status: Literal["ok", "degraded"]
    version: str
    dependencies: dict[str, str]
    index: IndexStatus | None
    runbooks: int | None
    queues: dict[str, QueueStatus] | None
    relay: Annotated[dict[str, Any] | None, Field(description="Who leads the relay, and its term.")]
    inbox: str
    dead_letters: Annotated[
        DeadLetterStatus | None, Field(description="With open letters or halted partitions Cairn is degraded.")
    ] = None
    partitions: Annotated[list[PartitionStatus] | None, Field(description="Null where no consumer can be asked.")] = (
        None
    )
    answers: AnswerStatus | None = None


class PlanView(BaseModel):
    """How MongoDB runs one of our queries: `index` is null where it reads the whole collection."""

    name: str
    collection: str
    filter: dict[str, Any]
    sort: dict[str, int]
    index: str | None
    stages: list[str]
    keys_examined: int | None
    documents_examined: int | None
    returned: int | None


class IndexesAnswer(BaseModel):
    """`ok` when every query uses an index."""

    ok: bool
    plans: list[PlanView]
