"""What may happen to a letter, as pure functions from one state to the next; each adds a line to its history.

    open ──replay──> replaying ──searchable, superseded──> resolved
      ^                  │
      └──failed again────┘          open, replaying ──discard──> discarded ──reopen──> open

An observation (the letter was read from its topic, perhaps for the second time) changes a letter only where it tells
something newer than what is known: reading a topic once more from its beginning changes nothing.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import datetime

from cairn_gateway.dlq.model import HISTORY, MAX_REPLAYS, Change, Letter, Replay
from cairn_shared.errors import Conflict
from cairn_shared.events import NAMESPACE

NOT_HERE = "the consumer"


def discovered(letter: Letter) -> Letter:
    """A letter that was not known before."""
    told = f"{letter.failure.stage}: {letter.failure.message}"[:500]
    return _noted(letter, Change(letter.failure.last_failed_at, "dead-lettered", None, told))


def observed(known: Letter, seen: Letter, replay: uuid.UUID | None) -> Letter | None:
    """The letter after it was read from its topic; None where that is no news.

    `replay` is the replay that the record came by. A closed letter stays closed: whoever closed it had a reason, and
    what was searchable once stays so.
    """
    if known.closed or seen.failure.last_failed_at <= known.failure.last_failed_at:
        return None
    if known.state == "replaying" and (known.replay is None or replay != known.replay.id):
        return None  # it failed before this replay was sent
    told = f"{seen.failure.stage}: {seen.failure.message}"[:500]
    what = "failed again" if known.state == "replaying" else "dead-lettered again"
    failure = replace(
        seen.failure,
        first_failed_at=known.failure.first_failed_at,
        attempts=max(seen.failure.attempts, known.failure.attempts + 1),
    )
    after = replace(known, state="open", failure=failure, fingerprint=seen.fingerprint)
    return _noted(after, Change(seen.failure.last_failed_at, what, NOT_HERE, told))


def sent(letter: Letter, *, by: str, at: datetime, job: str | None, force: bool) -> Letter:
    """The letter about to be replayed.

    Raises:
        Conflict: it is not open, was replayed too often, or its value was not kept.
    """
    why_not(letter, force=force)
    count = letter.replay_count + 1
    replay = Replay(uuid.uuid5(NAMESPACE, f"replay|{letter.id}|{count}"), by, at, job)
    after = replace(letter, state="replaying", replay=replay, replay_count=count, pending_job=None)
    return _noted(after, Change(at, "replayed", by, f"replay {count}" + (f", job {job}" if job else "")))


def edited(letter: Letter, event_id: uuid.UUID, *, by: str, at: datetime, reason: str) -> Letter:
    """The letter whose mended event `event_id` is sent in its place; the count of replays grows as well.

    Raises:
        Conflict: it is not open.
    """
    if letter.state != "open":
        raise Conflict(f"the dead letter is {letter.state}, not open")
    count = letter.replay_count + 1
    replay = Replay(uuid.uuid5(NAMESPACE, f"edit|{letter.id}|{event_id}"), by, at, None, event_id, at, 1)
    after = replace(letter, state="replaying", replay=replay, replay_count=count, edited_to=event_id, pending_job=None)
    return _noted(after, Change(at, "edited", by, f"sent as event {event_id}" + (f": {reason}" if reason else "")))


def published(letter: Letter, at: datetime) -> Letter:
    """The letter whose replay Kafka acknowledged."""
    assert letter.replay is not None
    replay = replace(letter.replay, published_at=at, publications=letter.replay.publications + 1)
    return replace(letter, replay=replay)


def why_not(letter: Letter, *, force: bool) -> None:
    """Nothing where the letter can be replayed.

    Raises:
        Conflict: why it cannot.
    """
    if letter.state != "open":
        raise Conflict(f"the dead letter is {letter.state}, not open")
    if not letter.value_kept:
        raise Conflict(f"its value of {letter.size} bytes was too large to keep: produce it again at its source")
    if letter.replay_count >= MAX_REPLAYS and not force:
        raise Conflict(f"it was replayed {letter.replay_count} times and came back: mend the cause, then use force")


def resolved(letter: Letter, outcome: str, at: datetime) -> Letter:
    """The letter whose event came to a good end after all."""
    after = replace(letter, state="resolved", outcome=outcome, closed_at=at, closed_by=None, pending_job=None)
    return _noted(after, Change(at, "resolved", None, outcome))


def discarded(letter: Letter, *, by: str, at: datetime, reason: str) -> Letter:
    """The letter that somebody decided to leave.

    Raises:
        Conflict: it is closed already.
    """
    if letter.closed:
        raise Conflict(f"the dead letter is {letter.state}")
    after = replace(letter, state="discarded", reason=reason, closed_at=at, closed_by=by, pending_job=None)
    return _noted(after, Change(at, "discarded", by, reason))


def reopened(letter: Letter, *, by: str, at: datetime, reason: str) -> Letter:
    """A letter that was discarded, or hangs in a replay of which nothing is heard, open again.

    Raises:
        Conflict: it is neither.
    """
    if letter.state not in ("discarded", "replaying"):
        raise Conflict(f"the dead letter is {letter.state}")
    after = replace(letter, state="open", reason=None, closed_at=None, closed_by=None)
    return _noted(after, Change(at, "reopened", by, reason))


def _noted(letter: Letter, change: Change) -> Letter:
    return replace(letter, history=(*letter.history, change)[-HISTORY:])
