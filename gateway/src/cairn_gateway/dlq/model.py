"""What the workbench works with: a dead letter, what is chosen of them, and a replay of many. No I/O."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from cairn_shared.kafka.records import Headers

LetterState = Literal["open", "replaying", "resolved", "discarded"]
"""open: somebody has to look. replaying: on its way through the consumer again. resolved and discarded: done with."""

JobState = Literal["selecting", "running", "stopped", "done"]
"""selecting: its letters are being marked."""

MAX_REPLAYS = 3
"""A letter that came back so often needs a person who says `force`: the cause is not mended."""

HISTORY = 100
"""Lines of a letter's history that are kept, the newest."""


@dataclass(frozen=True)
class Failure:
    """Why the record could not be processed, as the consumer's headers tell it; blank where they do not."""

    stage: str
    kind: str
    exception: str
    cause: str
    message: str
    stack: str
    attempts: int
    first_failed_at: datetime
    last_failed_at: datetime
    app_version: str = ""
    git_sha: str = ""
    pipeline: str = ""


@dataclass(frozen=True)
class Replay:
    """One way of a letter through the consumer. `event_id` is that of an edited event, which is another one."""

    id: uuid.UUID
    by: str
    at: datetime
    job: str | None = None
    event_id: uuid.UUID | None = None
    published_at: datetime | None = None
    publications: int = 0


@dataclass(frozen=True)
class Change:
    """A line of a letter's history."""

    at: datetime
    what: str
    by: str | None = None
    detail: str = ""


@dataclass(frozen=True)
class Letter:
    """A record that could not be processed, byte for byte, and what became of it.

    `topic`, `partition` and `offset` are where the record lay first; `headers` are its own, without those that the
    consumer or a replay added. `value` is None both for a tombstone and where it was too large to keep: then
    `value_kept` is false and `size` says how large. `rev` grows with every write.
    """

    id: uuid.UUID
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int | None
    group: str
    size: int
    value_kept: bool
    event_id: uuid.UUID | None
    event_type: str
    source: str | None
    subject: str | None
    part: str
    version: int | None
    fingerprint: str
    failure: Failure
    indexed_at: datetime
    traceparent: str | None = None
    state: LetterState = "open"
    rev: int = 1
    replay_count: int = 0
    replay: Replay | None = None
    pending_job: str | None = None
    edited_from: uuid.UUID | None = None
    edited_to: uuid.UUID | None = None
    outcome: str | None = None
    reason: str | None = None
    closed_at: datetime | None = None
    closed_by: str | None = None
    history: tuple[Change, ...] = ()

    @property
    def closed(self) -> bool:
        """Nothing is left to be done about it."""
        return self.state in ("resolved", "discarded")

    @property
    def settling_event(self) -> uuid.UUID | None:
        """The event whose end decides about this letter: the edited one while that is on its way, else its own."""
        edited = self.replay.event_id if self.replay else None
        return edited or self.event_id


@dataclass(frozen=True)
class Choice:
    """Which letters: every given field must hold. `ids` and the other fields may be combined."""

    ids: tuple[uuid.UUID, ...] | None = None
    state: LetterState | None = None
    topic: str | None = None
    stage: str | None = None
    kind: str | None = None
    exception: str | None = None
    source: str | None = None
    event_type: str | None = None
    fingerprint: str | None = None
    event_id: uuid.UUID | None = None
    job: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class Group:
    """Letters with the same fingerprint."""

    fingerprint: str
    count: int
    open: int
    stage: str
    kind: str
    exception: str
    message: str
    topics: tuple[str, ...]
    sources: tuple[str, ...]
    oldest: datetime
    newest: datetime
    example: uuid.UUID


@dataclass(frozen=True)
class Job:
    """A replay of many letters, stored so that it survives a restart; `rate` is in letters a second."""

    id: str
    by: str
    created_at: datetime
    rate: float
    force: bool
    selected: int
    refused: int
    state: JobState = "selecting"
    note: str = ""
    ended_at: datetime | None = None


@dataclass(frozen=True)
class JobProgress:
    """How far a job has come: `waiting` are not sent yet, `on_their_way` are, the others came to an end."""

    waiting: int = 0
    on_their_way: int = 0
    resolved: int = 0
    failed_again: int = 0
    discarded: int = 0


@dataclass(frozen=True)
class Tally:
    """How many letters there are in each state, and since when the oldest open one waits."""

    counts: dict[str, int] = field(default_factory=dict)
    oldest_open: datetime | None = None

    @property
    def open(self) -> int:
        return self.counts.get("open", 0)

    @property
    def replaying(self) -> int:
        return self.counts.get("replaying", 0)
