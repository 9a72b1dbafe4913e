"""Bodies of `/runbooks`."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, StringConstraints

from cairn_gateway.schemas.base import Body, Line, Name, Path, Url, WriteStatus
from cairn_shared.runbooks.model import Runbook, Step, StepKind
from cairn_shared.runbooks.records import Head, Stored, Written

MAX_IMPORT_ITEMS = 200


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
    tags: Annotated[list[Name], Field(max_length=100, default_factory=list)]
    alerts: Annotated[list[Name], Field(max_length=200, default_factory=list)]
    links: Annotated[list[Url], Field(max_length=200, default_factory=list)]
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
    warnings: Annotated[
        list[str], Field(description="What its author should know though it was taken: front matter left out.")
    ] = []

    @classmethod
    def of(cls, written: Written, warnings: Sequence[str] = ()) -> RunbookWritten:
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
            warnings=list(warnings),
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


class PreviewAnswer(BaseModel):
    """What a text would be as a runbook."""

    title: str
    service: str | None
    severity: str | None
    owner: str | None
    tags: list[str]
    alerts: list[str]
    steps: list[Step]
    warnings: list[str]

    @classmethod
    def of(cls, runbook: Runbook, warnings: Sequence[str]) -> PreviewAnswer:
        """Of what was read."""
        return cls.model_validate({**runbook.model_dump(), "warnings": list(warnings)})


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


class LinkedFrom(BaseModel):
    """Runbooks that link to one, in order of their ids."""

    runbooks: list[RunbookSummary]


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
    """What became of one file; `reason` and `field` when it was rejected, `warnings` when it was taken all the same."""

    path: str
    id: str | None = None
    status: Literal["created", "changed", "unchanged", "rejected"]
    revision: int | None = None
    event_id: uuid.UUID | None = None
    steps: int | None = None
    reason: str | None = None
    field: str | None = None
    warnings: list[str] = []


class ImportAnswer(BaseModel):
    """One result for each item, in order."""

    results: list[ImportResult]
