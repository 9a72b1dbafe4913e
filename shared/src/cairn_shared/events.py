"""The event envelope (design §4) and the payload of every event type.

One record on Kafka is one `Event` as JSON. Unknown fields are ignored, so that old consumers read new
producers. `event_id` is a UUIDv5 of the source and the source's own id: a redelivery has the same id.
`version` orders the writes to one `(subject, part)` by what their source says; `arrived` orders those of one version,
`event_id` those of one moment.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import orjson
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from cairn_shared.errors import PermanentError
from cairn_shared.runbooks.model import Runbook

SCHEMA_VERSION = 1
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://cairn.invalid/ns")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLACE_BITS = 11
_LAST = 2**63 - 1

TOPIC_RUNBOOKS = "cairn.runbooks.v1"
TOPIC_EVENTS = "cairn.events.v1"
TOPIC_REPO_CHANGES = "cairn.repo-changes.v1"
TOPICS = (TOPIC_RUNBOOKS, TOPIC_EVENTS, TOPIC_REPO_CHANGES)

EventType = Literal[
    "runbook.upserted",
    "runbook.deleted",
    "commit",
    "pull_request",
    "issue",
    "ticket",
    "comment",
    "deployment",
    "alert",
    "log",
    "repo.pushed",
    "push.cut",
]


def dead_letter_topic(topic: str) -> str:
    """The dead letter topic of `topic`."""
    return f"{topic}.dlq"


def event_id(source: str, source_id: str) -> uuid.UUID:
    """The id of what `source` calls `source_id`; the same input always gives the same id."""
    return uuid.uuid5(NAMESPACE, f"event|{len(source)}:{source}|{source_id}")


def arrival(moment: datetime, place: int = 0) -> int:
    """`Event.arrived` of what reached Cairn at `moment`, as the event number `place` (from 0) of its delivery.

    Microseconds since 1970, then 11 bits for the place: it grows with both and fits 63 bits until the year 2112.
    """
    microseconds = max(0, (moment - _EPOCH) // timedelta(microseconds=1))
    return min(_LAST, microseconds << _PLACE_BITS | min(place, (1 << _PLACE_BITS) - 1))


def document_id(source: str, external_id: str) -> uuid.UUID:
    """The id of a document from its natural key."""
    return uuid.uuid5(NAMESPACE, f"document|{len(source)}:{source}|{external_id}")


class Payload(BaseModel):
    """Base of payloads: tolerant to fields of newer producers."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class RunbookUpserted(Payload):
    """A runbook was created or changed; `Event.version` is its revision.

    With `rewrite` the index is known to hold it wrongly: nothing that is there of it is to be kept.
    """

    runbook: Runbook
    rewrite: bool = False


class RunbookDeleted(Payload):
    """A runbook was deleted; `Event.version` is the revision of its tombstone."""

    runbook_id: str


class SourceDocument(Payload):
    """What something outside said: a commit, ticket, alert, log template ... ready to be indexed.

    A document may have parts (a ticket and its comments, an alert's episodes): each part is a write of its
    own under `(subject, part)`; the part `""` is the main one and names the document.
    """

    title: str
    body: str = ""
    part: str = ""
    deleted: bool = False
    url: str | None = None
    service: str | None = None
    severity: str | None = None
    status: str | None = None
    author: str | None = None
    labels: dict[str, str] = {}
    references: Annotated[list[str], Field(description="Tickets, commits, runbook_urls it points to.")] = []
    paths: Annotated[list[str], Field(description="Files that it changed.")] = []
    count: Annotated[
        int, Field(ge=0, description="How many occurrences this part stands for; those of a document are the sum.")
    ] = 1
    first_seen: AwareDatetime | None = None
    last_seen: AwareDatetime | None = None


class RepoPushed(Payload):
    """A dirty mark: something was pushed. The consumer asks the repository what is there now."""

    repository: Annotated[str, Field(description="The name it was declared under.")]
    branch: str
    before: str | None = None
    after: str | None = None
    forced: bool = False


class PushCut(Payload):
    """A push of which the sender listed a part only. The consumer asks the repository for the other commits."""

    host: Annotated[str, Field(description="Where people see the repository: `github.com`.")]
    name: Annotated[str, Field(description="The repository as its host calls it: `Acme/payments`.")]
    prefix: Annotated[str, Field(description="The start of the natural keys of its commits.")]
    service: str
    base: Annotated[str | None, Field(description="A commit or branch whose commits are known; None: there is none.")]
    after: Annotated[str, Field(pattern=r"^[0-9a-f]{40,64}$", description="The commit that the push ended at.")]

    listed: Annotated[list[str], Field(description="The commits that the webhook brought itself.")] = []

    def key(self) -> str:
        """The same for every delivery of the same push."""
        return f"{self.prefix}|{self.base or ''}..{self.after}"


PAYLOADS: dict[str, type[Payload]] = {
    "runbook.upserted": RunbookUpserted,
    "runbook.deleted": RunbookDeleted,
    "commit": SourceDocument,
    "pull_request": SourceDocument,
    "issue": SourceDocument,
    "ticket": SourceDocument,
    "comment": SourceDocument,
    "deployment": SourceDocument,
    "alert": SourceDocument,
    "log": SourceDocument,
    "repo.pushed": RepoPushed,
    "push.cut": PushCut,
}
_REPO_CHANGES = frozenset({"repo.pushed", "push.cut"})


class Event(BaseModel):
    """One record on Kafka. `payload` is validated by `body()` against the model of `type`."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    event_id: uuid.UUID
    type: EventType
    source: Annotated[str, Field(min_length=1, max_length=200)]
    subject: Annotated[
        str, Field(min_length=1, max_length=1000, description="Natural key of the document in its source.")
    ]
    version: Annotated[int, Field(ge=0, lt=2**63)]
    occurred_at: AwareDatetime
    accepted_at: AwareDatetime
    arrived: Annotated[
        int,
        Field(ge=0, lt=2**63, description="When it first reached Cairn and in which place (`arrival`); 0: no matter."),
    ] = 0
    schema_version: int = SCHEMA_VERSION
    payload: dict[str, Any]

    def document_id(self) -> uuid.UUID:
        """The document that this event writes to."""
        return document_id(self.source, self.subject)

    def body(self) -> Payload:
        """The payload as its own model.

        Raises:
            PermanentError: it does not fit the model of `type`.
        """
        try:
            return PAYLOADS[self.type].model_validate(self.payload)
        except ValidationError as exc:
            raise PermanentError(f"{self.type} payload: {first_error(exc)}", stage="validate") from exc

    def key(self) -> bytes:
        """The Kafka key: events of one subject stay in order on one partition."""
        return self.subject.encode()

    def headers(self, traceparent: str | None = None) -> list[tuple[str, bytes]]:
        """The Kafka headers of design §4."""
        headers = [
            ("event-id", str(self.event_id).encode()),
            ("event-type", self.type.encode()),
            ("schema-version", str(self.schema_version).encode()),
        ]
        if traceparent:
            headers.append(("traceparent", traceparent.encode()))
        return headers

    def encode(self) -> bytes:
        """The Kafka value."""
        return orjson.dumps(self.model_dump(mode="json"))

    def topic(self) -> str:
        """The topic that events of this type go to."""
        return topic_of(self.type)


def topic_of(event_type: str) -> str:
    """The topic that events of `event_type` go to."""
    if event_type.startswith("runbook."):
        return TOPIC_RUNBOOKS
    return TOPIC_REPO_CHANGES if event_type in _REPO_CHANGES else TOPIC_EVENTS


def decode(value: bytes | None) -> Event:
    """A Kafka value as an `Event`, its payload not yet validated.

    Raises:
        PermanentError: not JSON, not an event, or of a schema version this code does not know.
    """
    if value is None:
        raise PermanentError("the record has no value", stage="decode")
    try:
        event = Event.model_validate_json(value)
    except ValidationError as exc:
        raise PermanentError(f"not an event: {first_error(exc)}", stage="decode") from exc
    if event.schema_version > SCHEMA_VERSION:
        raise PermanentError(f"schema_version {event.schema_version} is newer than {SCHEMA_VERSION}", stage="decode")
    return event


def make_event(
    event_type: EventType,
    *,
    source: str,
    source_id: str,
    subject: str,
    version: int,
    occurred_at: datetime,
    accepted_at: datetime,
    payload: Payload,
) -> Event:
    """An event whose id follows from `source` and `source_id`."""
    return Event(
        event_id=event_id(source, source_id),
        type=event_type,
        source=source,
        subject=subject,
        version=version,
        occurred_at=occurred_at,
        accepted_at=accepted_at,
        payload=payload.model_dump(mode="json"),
    )


def first_error(exc: ValidationError) -> str:
    """The first validation error as `field: what is wrong`, without the offending value."""
    error = exc.errors(include_input=False, include_url=False)[0]
    where = ".".join(str(part) for part in error["loc"])
    return f"{where}: {error['msg']}" if where else error["msg"]
