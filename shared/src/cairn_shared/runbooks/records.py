"""What the runbook store takes and gives: values without I/O."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from cairn_shared.errors import PreconditionFailed
from cairn_shared.events import Event, RunbookDeleted, RunbookUpserted, event_id, make_event
from cairn_shared.runbooks.model import Runbook

Document: TypeAlias = dict[str, Any]

SOURCE = "runbooks"
"""`Event.source` of every runbook event, and so the source of its document in the index."""


@dataclass(frozen=True)
class Precondition:
    """What must hold of the present revision (RFC 9110 §13.1): `If-Match` and `If-None-Match`.

    `any_revision` is `If-Match: *`, `no_revision` is `If-None-Match: *`.
    """

    revisions: frozenset[int] | None = None
    any_revision: bool = False
    no_revision: bool = False

    def check(self, revision: int | None) -> None:
        """`revision` is None where there is no runbook (or a tombstone).

        Raises:
            PreconditionFailed: it does not hold; the detail names the present revision.
        """
        if self.no_revision and revision is not None:
            raise PreconditionFailed(f"it exists already, at revision {revision}")
        if (self.any_revision or self.revisions is not None) and revision is None:
            raise PreconditionFailed("there is no such runbook")
        if self.revisions is not None and revision not in self.revisions:
            raise PreconditionFailed(f"it is at revision {revision}; read it again and repeat the change")


ALWAYS = Precondition()


@dataclass(frozen=True)
class Stored:
    """A runbook (or its tombstone) as stored; `markdown` is its source where it was given as Markdown."""

    runbook: Runbook
    revision: int
    deleted: bool
    content_sha: str
    markdown: str | None
    created_at: datetime
    updated_at: datetime
    updated_by: str

    @property
    def event_id(self) -> uuid.UUID:
        """The event that carries this revision."""
        return revision_event_id(self.runbook.id, self.revision)

    def event(self, accepted_at: datetime, *, rewrite: bool = False) -> Event:
        """That event, accepted at `accepted_at`."""
        return make_event(
            "runbook.deleted" if self.deleted else "runbook.upserted",
            source=SOURCE,
            source_id=f"{self.runbook.id}@{self.revision}",
            subject=self.runbook.id,
            version=self.revision,
            occurred_at=self.updated_at,
            accepted_at=accepted_at,
            payload=RunbookDeleted(runbook_id=self.runbook.id)
            if self.deleted
            else RunbookUpserted(runbook=self.runbook, rewrite=rewrite),
        )

    def same_content(self, runbook: Runbook, markdown: str | None) -> bool:
        """Whether storing this would change nothing (a new commit of an unchanged file does not)."""
        return (
            not self.deleted
            and self.content_sha == runbook.content_sha()
            and self.markdown == markdown
            and self.runbook.blob == runbook.blob
        )


@dataclass(frozen=True)
class Head:
    """A runbook without its text: for lists, and to compare with an index or a repository."""

    id: str
    revision: int
    deleted: bool
    content_sha: str
    title: str
    service: str | None
    severity: str | None
    owner: str | None
    tags: tuple[str, ...]
    alerts: tuple[str, ...]
    source: str
    path: str | None
    commit: str | None
    blob: str | None
    url: str | None
    steps: int
    updated_at: datetime
    updated_by: str = ""
    links: tuple[str, ...] = ()


@dataclass(frozen=True)
class Written:
    """What a write did. `changed` is false where the content was there already; `event_id` carries `revision`."""

    runbook: Runbook
    revision: int
    changed: bool
    created: bool
    event_id: uuid.UUID


def revision_event_id(runbook_id: str, revision: int) -> uuid.UUID:
    """The id of the event that carries a revision."""
    return event_id(SOURCE, f"{runbook_id}@{revision}")


def after(now: datetime, previous: datetime | None) -> datetime:
    """`now` in whole milliseconds, as MongoDB keeps it, but always after `previous`: the order of a runbook's events.

    Clocks of two writers may disagree; the order of revisions must not.
    """
    now = now.replace(microsecond=now.microsecond // 1000 * 1000)
    return now if previous is None else max(now, previous + timedelta(milliseconds=1))


def to_document(stored: Stored) -> Document:
    """The document of the collection `runbooks`."""
    return {
        "_id": stored.runbook.id,
        **stored.runbook.model_dump(mode="json", exclude={"id"}),
        "step_count": len(stored.runbook.steps),
        "revision": stored.revision,
        "deleted": stored.deleted,
        "content_sha": stored.content_sha,
        "markdown": stored.markdown,
        "created_at": stored.created_at,
        "updated_at": stored.updated_at,
        "updated_by": stored.updated_by,
    }


def from_document(document: Document) -> Stored:
    """The inverse of `to_document`; also of the documents of `runbook_revisions`."""
    runbook_id = document.get("runbook_id", document["_id"])
    return Stored(
        Runbook.model_validate({**document, "id": runbook_id}),
        document["revision"],
        document["deleted"],
        document["content_sha"],
        document["markdown"],
        document["created_at"],
        document["updated_at"],
        document["updated_by"],
    )


HEAD_FIELDS = (
    *("revision", "deleted", "content_sha", "title", "service", "severity", "owner", "tags", "alerts"),
    *("source", "path", "commit", "blob", "url", "step_count", "updated_at", "updated_by", "links"),
)


def to_head(document: Document) -> Head:
    """A document read with the projection `HEAD_FIELDS`."""
    values: Document = {name: document.get(name) for name in HEAD_FIELDS if name != "step_count"}
    for name in ("tags", "alerts", "links"):
        values[name] = tuple(document.get(name) or ())
    return Head(id=document["_id"], steps=document["step_count"], **values)
