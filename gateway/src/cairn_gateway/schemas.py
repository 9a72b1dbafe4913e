"""Bodies of the public API, apart from those of `/ask` and `/search` (`cairn_shared.api`)."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from cairn_gateway.model import IngestStateName, Role
from cairn_shared.api.index import IndexStatus
from cairn_shared.runbooks.model import RUNBOOK_ID_PATTERN, RunbookId, Step, StepKind
from cairn_shared.runbooks.records import Head, Stored, Written

MAX_IMPORT_ITEMS = 200
MAX_STATES = 1000

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Line = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Url = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
Path = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Identifier = Annotated[str, StringConstraints(pattern=RUNBOOK_ID_PATTERN)]
Moment = Annotated[
    AwareDatetime,
    Field(ge=datetime.fromisoformat("1990-01-01T00:00:00Z"), lt=datetime.fromisoformat("2200-01-01T00:00:00Z")),
]
"""A time that every store can hold."""

WriteStatus = Literal["created", "changed", "unchanged"]


class Body(BaseModel):
    """Base of request bodies: unknown fields are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Problem(BaseModel):
    """RFC 9457 problem details; every error looks like this."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    field: Annotated[str | None, Field(description="What is wrong in the request.")] = None
    dependency: Annotated[str | None, Field(description="What is away.")] = None
    request_id: str | None = None


def _text_as_step(value: Any) -> Any:
    return {"body": value} if isinstance(value, str) else value


class StepBody(Body):
    """A step given explicitly; its number is its place in the list."""

    body: Annotated[str, StringConstraints(min_length=1)]
    label: Annotated[str | None, StringConstraints(min_length=1, max_length=50)] = None
    section: Annotated[str, StringConstraints(max_length=500)] = ""
    kind: StepKind = "ordered"


class RunbookBody(Body):
    """A runbook: either `markdown`, from which the steps are read, or the `steps` themselves.

    What is given beside `markdown` holds where its front matter says nothing.
    """

    title: Line | None = None
    service: Name | None = None
    severity: Name | None = None
    owner: Name | None = None
    tags: Annotated[list[Name], Field(max_length=100)] = []
    alerts: Annotated[list[Name], Field(max_length=200)] = []
    links: Annotated[list[Url], Field(max_length=200)] = []
    path: Path | None = None
    url: Url | None = None
    markdown: str | None = None
    steps: Annotated[
        list[Annotated[StepBody, BeforeValidator(_text_as_step)]] | None, Field(min_length=1, max_length=2000)
    ] = None


class RunbookWritten(BaseModel):
    """What a write did; `event_id` is the event that makes this revision searchable."""

    id: str
    revision: int
    changed: bool
    created: bool
    status: WriteStatus
    event_id: uuid.UUID
    title: str
    service: str | None
    steps: Annotated[int, Field(description="How many steps it has.")]

    @classmethod
    def of(cls, written: Written) -> RunbookWritten:
        """From the store's answer."""
        runbook = written.runbook
        return cls(
            id=runbook.id,
            revision=written.revision,
            changed=written.changed,
            created=written.created,
            status=status_of(written),
            event_id=written.event_id,
            title=runbook.title,
            service=runbook.service,
            steps=len(runbook.steps),
        )


def status_of(written: Written) -> WriteStatus:
    """A write in one word."""
    return "created" if written.created else "changed" if written.changed else "unchanged"


class RunbookDeletedBody(BaseModel):
    """A runbook was deleted; `revision` is its tombstone's."""

    id: str
    revision: int
    event_id: uuid.UUID


class RunbookView(BaseModel):
    """A runbook with its steps."""

    id: str
    revision: int
    title: str
    service: str | None
    severity: str | None
    owner: str | None
    tags: list[str]
    alerts: list[str]
    links: list[str]
    source: str
    path: str | None
    commit: str | None
    blob: str | None
    url: str | None
    steps: list[Step]
    markdown: Annotated[bool, Field(description="Its Markdown source is kept: ask with Accept: text/markdown.")]
    content_sha: str
    created_at: datetime
    updated_at: datetime
    updated_by: str
    event_id: uuid.UUID

    @classmethod
    def of(cls, stored: Stored) -> RunbookView:
        """From the store."""
        return cls(
            **stored.runbook.model_dump(),
            revision=stored.revision,
            markdown=stored.markdown is not None,
            content_sha=stored.content_sha,
            created_at=stored.created_at,
            updated_at=stored.updated_at,
            updated_by=stored.updated_by,
            event_id=stored.event_id,
        )


class RunbookSummary(BaseModel):
    """A runbook in a list; `steps` is their number."""

    id: str
    revision: int
    title: str
    service: str | None
    severity: str | None
    owner: str | None
    tags: list[str]
    alerts: list[str]
    source: str
    path: str | None
    url: str | None
    steps: int
    updated_at: datetime

    @classmethod
    def of(cls, head: Head) -> RunbookSummary:
        """From the store."""
        return cls.model_validate(head, from_attributes=True)


class RunbookPage(BaseModel):
    """One page in order of ids; `next` is the `after` of the following page."""

    runbooks: list[RunbookSummary]
    next: str | None


class RevisionView(BaseModel):
    """One revision of a runbook; `steps` is their number."""

    revision: int
    deleted: bool
    title: str
    steps: int
    content_sha: str
    updated_at: datetime
    updated_by: str
    event_id: uuid.UUID


class RevisionPage(BaseModel):
    """Newest first; `next` is the `before` of the following page."""

    id: str
    revisions: list[RevisionView]
    next: int | None


class ImportItem(Body):
    """One file. A bad one is rejected by itself, so its bounds are checked with it, not here."""

    path: str
    markdown: str


class ImportBody(Body):
    """Files of one folder or repository. A runbook belongs to its source and path."""

    source: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}$")] = "import"
    prefix: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{0,100}$")] = ""
    items: Annotated[list[ImportItem], Field(min_length=1, max_length=MAX_IMPORT_ITEMS)]


class ImportResult(BaseModel):
    """What became of one file; `reason` and `field` when it was rejected."""

    path: str
    id: str | None = None
    status: Literal["created", "changed", "unchanged", "rejected"]
    revision: int | None = None
    event_id: uuid.UUID | None = None
    steps: int | None = None
    reason: str | None = None
    field: str | None = None


class ImportAnswer(BaseModel):
    """One result for each item, in order."""

    results: list[ImportResult]


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
    grace_seconds: Annotated[float | None, Field(ge=0, le=86_400)] = None


class DifferenceView(BaseModel):
    """One runbook that the index holds otherwise."""

    runbook_id: str
    revision: int | None
    indexed_version: int | None


class VerifyAnswer(BaseModel):
    """`ok` when there is no difference. The kinds are explained in `cairn_gateway.reconcile.Differences`."""

    ok: bool
    checked: int
    indexed: int
    counts: dict[str, int]
    differences: dict[str, list[DifferenceView]]
    pending: list[str]
    repaired: list[str]


class UserBody(Body):
    """A user without keys."""

    name: Name
    role: Role = Role.READER
    email: Annotated[str | None, StringConstraints(pattern=r"^[^@\s]{1,100}@[^@\s]{1,150}$")] = None
    team: Name | None = None


class KeyView(BaseModel):
    """What is known of a key."""

    id: str
    label: str
    created_at: datetime


class UserView(BaseModel):
    """A user."""

    id: str
    name: str
    role: Role
    email: str | None
    team: str | None
    keys: list[KeyView] = []


class UserWritten(UserView):
    """A user as stored."""

    status: WriteStatus


class UserList(BaseModel):
    """Everybody."""

    users: list[UserView]


class KeyBody(Body):
    """A name for the key, to tell it from others."""

    label: Annotated[str, StringConstraints(max_length=200)] = ""


class KeyMade(BaseModel):
    """The key, shown this once."""

    user_id: str
    key_id: str
    key: str


Outcome = Literal["worked", "failed", "skipped"]


class ExecutionBody(Body):
    """A step that somebody carried out."""

    runbook_id: RunbookId
    step: Annotated[int, Field(ge=1, le=100_000)]
    outcome: Outcome
    note: Annotated[str, StringConstraints(max_length=10_000)] = ""
    revision: Annotated[int | None, Field(ge=1, lt=2**63)] = None
    incident: Annotated[str | None, StringConstraints(min_length=1, max_length=200)] = None
    started_at: Moment | None = None
    finished_at: Moment | None = None


class ExecutionImport(ExecutionBody):
    """The same with the user who did it, for records from elsewhere."""

    user_id: Identifier
    started_at: Moment


class ExecutionView(BaseModel):
    """A recorded execution."""

    id: str
    runbook_id: str
    step: int
    outcome: Outcome
    user_id: str
    note: str
    revision: int | None = None
    incident: str | None = None
    started_at: datetime
    finished_at: datetime | None = None


class ExecutionWritten(ExecutionView):
    """An execution as stored."""

    status: WriteStatus


class ExecutionPage(BaseModel):
    """Newest first; `next` is the `after` of the following page."""

    executions: list[ExecutionView]
    next: str | None


Verdict = Literal["helpful", "wrong", "outdated"]


class FeedbackBody(Body):
    """What somebody thinks of an answer or a step."""

    verdict: Verdict
    question: Annotated[str | None, StringConstraints(max_length=32_768)] = None
    answer: Annotated[str | None, StringConstraints(max_length=100_000)] = None
    note: Annotated[str, StringConstraints(max_length=10_000)] = ""
    runbook_id: RunbookId | None = None
    step: Annotated[int | None, Field(ge=1, le=100_000)] = None
    revision: Annotated[int | None, Field(ge=1, lt=2**63)] = None
    request_id: Annotated[str | None, StringConstraints(max_length=64)] = None


class FeedbackView(FeedbackBody):
    """Feedback as recorded."""

    model_config = ConfigDict(extra="ignore")

    id: str
    user_id: str
    created_at: datetime


class FeedbackPage(BaseModel):
    """Newest first; `next` is the `after` of the following page."""

    feedback: list[FeedbackView]
    next: str | None


class QueueStatus(BaseModel):
    """How much waits in the outbox or the inbox."""

    pending: int
    unsettled: int
    refused: int
    oldest_seconds: float


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
