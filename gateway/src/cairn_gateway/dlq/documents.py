"""The form of letters and jobs in MongoDB. Pure."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from cairn_gateway.dlq.model import Change, Choice, Failure, Job, Letter, Replay
from cairn_shared.mongo import Document, Index

LETTERS = "dlq_entries"
JOBS = "dlq_jobs"
CONTENT = ("key", "value", "headers")
"""What never changes and may be large."""

SUMMARY: Document = {"value": 0, "failure.stack": 0}
"""What a list leaves out."""

WITHOUT_VALUE: Document = {"value": 0}

LETTER_INDEXES = (
    Index("by_time", (("failure.last_failed_at", -1), ("_id", 1))),
    Index("by_state", (("state", 1), ("failure.last_failed_at", -1), ("_id", 1))),
    Index("by_fingerprint", (("fingerprint", 1), ("failure.last_failed_at", -1), ("_id", 1))),
    Index("by_event", (("event_id", 1),)),
    Index("by_edited", (("edited_to", 1),)),
    Index("by_job", (("replay.job", 1), ("state", 1))),
    Index("waiting", (("pending_job", 1), ("failure.first_failed_at", 1), ("_id", 1))),
    Index("due_for_check", (("state", 1), ("check_at", 1))),
    Index("oldest", (("state", 1), ("failure.first_failed_at", 1))),
    Index("expiry", (("expires_at", 1),), {"expireAfterSeconds": 0}),
)
JOB_INDEXES = (
    Index("by_state", (("state", 1), ("created_at", 1))),
    Index("by_time", (("created_at", -1), ("_id", 1))),
    Index("expiry", (("expires_at", 1),), {"expireAfterSeconds": 0}),
)


def document_of(letter: Letter) -> Document:
    """A letter as it is stored."""
    document = {name: getattr(letter, name) for name in Letter.__dataclass_fields__ if name != "id"}
    document["_id"] = letter.id
    document["headers"] = [[name, value] for name, value in letter.headers]
    document["failure"] = asdict(letter.failure)
    document["replay"] = asdict(letter.replay) if letter.replay else None
    document["history"] = [asdict(change) for change in letter.history]
    return document


def changes_of(letter: Letter) -> Document:
    """The stored fields that can change."""
    document = document_of(letter)
    for name in ("_id", "rev", *CONTENT):
        del document[name]
    return document


def letter_from(document: Document) -> Letter:
    """A letter as it was stored; what the query left out is blank."""
    failure: Document = {"stack": "", **document["failure"]}
    replay = document.get("replay")
    fields: dict[str, Any] = {name: document.get(name) for name in Letter.__dataclass_fields__ if name in document}
    fields |= {
        "id": document["_id"],
        "value": document.get("value"),
        "headers": tuple((name, value) for name, value in document.get("headers", ())),
        "failure": Failure(**failure),
        "replay": Replay(**replay) if replay else None,
        "history": tuple(Change(**change) for change in document.get("history", ())),
    }
    return Letter(**fields)


def job_document(job: Job) -> Document:
    """A job as it is stored."""
    document = asdict(job)
    document["_id"] = document.pop("id")
    return document


def job_from(document: Document) -> Job:
    """A job as it was stored."""
    fields = {name: document.get(name) for name in Job.__dataclass_fields__ if name in document}
    return Job(**{**fields, "id": document["_id"]})


def condition(choice: Choice) -> Document:
    """The query for a choice."""
    wanted: Document = {
        "state": choice.state,
        "topic": choice.topic,
        "failure.stage": choice.stage,
        "failure.kind": choice.kind,
        "failure.exception": choice.exception,
        "source": choice.source,
        "event_type": choice.event_type,
        "fingerprint": choice.fingerprint,
        "event_id": choice.event_id,
        "replay.job": choice.job,
    }
    query = {name: value for name, value in wanted.items() if value is not None}
    if choice.ids is not None:
        query["_id"] = {"$in": list(choice.ids)}
    times: dict[str, datetime] = {}
    if choice.since is not None:
        times["$gte"] = choice.since
    if choice.until is not None:
        times["$lt"] = choice.until
    if times:
        query["failure.last_failed_at"] = times
    return query
