"""What `/dlq` answers."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated, Any, Self

import orjson
from pydantic import BaseModel, Field

from cairn_gateway.dlq.model import Group, Job, JobProgress, JobState, Letter, LetterState
from cairn_gateway.dlq.workbench import Superseded, Tried
from cairn_shared.api.consumer import DryRunResult, Halt
from cairn_shared.redaction import redact

SHOWN_BYTES = 256 * 1024
"""Most of a value that is shown; all of it is at `/dlq/{id}/value`."""


class FailureView(BaseModel):
    """Why the record could not be processed."""

    stage: str
    kind: str
    exception: str
    cause: str
    message: str
    attempts: int
    first_failed_at: datetime
    last_failed_at: datetime
    app_version: str
    git_sha: str
    pipeline: str


class ReplayOfLetter(BaseModel):
    """The last replay of a letter; `event_id` is that of the edited event, where it was one."""

    id: uuid.UUID
    by: str
    at: datetime
    job: str | None
    event_id: uuid.UUID | None
    published_at: datetime | None
    publications: int


class LetterSummary(BaseModel):
    """A dead letter as a list shows it."""

    id: uuid.UUID
    state: LetterState
    topic: str
    partition: int
    offset: int
    event_id: uuid.UUID | None
    event_type: str
    source: str | None
    subject: str | None
    version: int | None
    size: int
    fingerprint: str
    failure: FailureView
    indexed_at: datetime
    age_seconds: Annotated[float, Field(description="Since it failed first.")]
    replay_count: int
    replay: ReplayOfLetter | None
    waiting_in: Annotated[str | None, Field(description="The replay that will send it.")]
    outcome: str | None
    reason: str | None
    closed_at: datetime | None
    closed_by: str | None
    indexed_version: Annotated[int | None, Field(description="Version of the same part that the index has.")] = None
    superseded: Annotated[
        bool | None, Field(description="The index has a newer version: safe to discard. Null: nobody can say.")
    ] = None

    @classmethod
    def of(cls, letter: Letter, now: datetime, found: Superseded | None) -> Self:
        """The view of `letter`."""
        return cls.model_validate(_summary(letter, now, found))


class LetterPage(BaseModel):
    """The last failed first; `next` is the `after` of the following page."""

    letters: list[LetterSummary]
    next: str | None


class BytesView(BaseModel):
    """Bytes for a person: `text` where they are UTF-8 (secrets redacted), `hex` where they are not.

    Both are null for what is null in the record. `truncated` tells that only the beginning is shown.
    """

    size: int
    null: bool
    text: str | None = None
    hex: str | None = None
    truncated: bool = False

    @classmethod
    def of(cls, raw: bytes | None) -> Self:
        """The view of `raw`."""
        if raw is None:
            return cls(size=0, null=True)
        shown, cut = raw[:SHOWN_BYTES], len(raw) > SHOWN_BYTES
        try:
            text = raw.decode() if not cut else shown.decode("utf-8", "ignore")
        except UnicodeDecodeError:
            return cls(size=len(raw), null=False, hex=shown[: SHOWN_BYTES // 4].hex(" "), truncated=cut)
        return cls(size=len(raw), null=False, text=redact(text), truncated=cut)


class HeaderView(BytesView):
    """One header; names may repeat."""

    name: str


class ChangeView(BaseModel):
    """A line of a letter's history; `by` is null for what Cairn did itself."""

    at: datetime
    what: str
    by: str | None
    detail: str


class LetterView(LetterSummary):
    """A dead letter with everything that there is to see."""

    part: str
    group: str
    timestamp: datetime | None
    traceparent: str | None
    trace_id: str | None
    stack: str
    key: BytesView
    value: BytesView
    value_kept: Annotated[bool, Field(description="False where the value was too large to keep.")]
    decoded: Annotated[Any, Field(description="The value as JSON, secrets redacted; null where it is none.")] = None
    headers: list[HeaderView]
    edited_from: uuid.UUID | None
    edited_to: uuid.UUID | None
    history: list[ChangeView]

    @classmethod
    def of(cls, letter: Letter, now: datetime, found: Superseded | None) -> Self:
        """The view of `letter`."""
        sent = datetime.fromtimestamp(letter.timestamp_ms / 1000, now.tzinfo) if letter.timestamp_ms else None
        trace = (letter.traceparent or "").split("-")
        value = BytesView.of(letter.value)
        return cls.model_validate(
            _summary(letter, now, found)
            | {
                "part": letter.part,
                "group": letter.group,
                "timestamp": sent,
                "traceparent": letter.traceparent,
                "trace_id": trace[1] if len(trace) == 4 else None,
                "stack": redact(letter.failure.stack),
                "key": BytesView.of(letter.key),
                "value": value,
                "value_kept": letter.value_kept,
                "decoded": _decoded(value),
                "headers": [{"name": name, **BytesView.of(content).model_dump()} for name, content in letter.headers],
                "edited_from": letter.edited_from,
                "edited_to": letter.edited_to,
                "history": [vars(change) for change in letter.history],
            }
        )


class GroupView(BaseModel):
    """Letters that failed alike."""

    fingerprint: str
    count: int
    open: int
    stage: str
    kind: str
    exception: str
    message: str
    topics: list[str]
    sources: list[str]
    oldest: datetime
    newest: datetime
    oldest_seconds: float
    example: uuid.UUID

    @classmethod
    def of(cls, group: Group, now: datetime) -> Self:
        """The view of `group`."""
        age = max(0.0, (now - group.oldest).total_seconds())
        return cls.model_validate({**vars(group), "oldest_seconds": round(age, 3), "message": redact(group.message)})


class GroupList(BaseModel):
    """The largest group first."""

    groups: list[GroupView]


class JobView(BaseModel):
    """A replay of many letters, and how far it is.

    `waiting` are not sent yet, `on_their_way` are. `settled` when it is done and every letter came to an end.
    """

    id: str
    by: str
    created_at: datetime
    ended_at: datetime | None
    state: JobState
    rate: float
    force: bool
    note: str
    selected: int
    refused: Annotated[int, Field(description="Left out: replayed three times before.")]
    waiting: int
    on_their_way: int
    resolved: int
    failed_again: int
    discarded: int
    settled: bool

    @classmethod
    def of(cls, job: Job, progress: JobProgress) -> Self:
        """The view of `job`."""
        settled = job.state in ("done", "stopped") and not (progress.waiting or progress.on_their_way)
        return cls.model_validate({**vars(job), **vars(progress), "settled": settled})


class JobList(BaseModel):
    """The newest first."""

    replays: list[JobView]


class DiscardAnswer(BaseModel):
    """How many were discarded."""

    discarded: int


class DryRunView(BaseModel):
    """What the consumers' code of now makes of letters."""

    ok: int
    failed: int
    app_version: str | None
    pipeline: str | None
    git_sha: str | None
    results: list[DryRunResult]

    @classmethod
    def of(cls, tried: Tried) -> Self:
        """The view of `tried`."""
        good = sum(result.ok for result in tried.results)
        return cls.model_validate(
            {**vars(tried), "ok": good, "failed": len(tried.results) - good, "results": list(tried.results)}
        )


class EditAnswer(BaseModel):
    """The event that was sent in the letter's place; or, for a dry run, what would become of it."""

    event_id: uuid.UUID | None = None
    letter: LetterView | None = None
    dry_run: DryRunView | None = None


class HaltList(BaseModel):
    """Partitions on which consumption stopped."""

    halts: list[Halt]


class RejectedLine(BaseModel):
    """A line of an import that is no letter."""

    line: int
    reason: str


class ImportAnswer(BaseModel):
    """What became of an import's lines."""

    imported: int
    known: int
    rejected: list[RejectedLine]


def _summary(letter: Letter, now: datetime, found: Superseded | None) -> dict[str, Any]:
    age = max(0.0, (now - letter.failure.first_failed_at).total_seconds())
    failure = {**vars(letter.failure), "message": redact(letter.failure.message)}
    return {
        **{name: getattr(letter, name) for name in LetterSummary.model_fields if hasattr(letter, name)},
        "failure": failure,
        "replay": vars(letter.replay) if letter.replay else None,
        "waiting_in": letter.pending_job,
        "age_seconds": round(age, 3),
        "indexed_version": found.indexed_version if found else None,
        "superseded": found.newer if found else None,
    }


def _decoded(value: BytesView) -> Any:
    if value.text is None or value.truncated:
        return None
    try:
        return orjson.loads(value.text)
    except orjson.JSONDecodeError:
        return None
