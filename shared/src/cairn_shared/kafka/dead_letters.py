"""Dead letters: the record byte for byte, with headers that say where it came from and why it failed (invariant I6).

Every added header begins with `cairn.dlq.`; values are UTF-8 text. The consumer writes them; the gateway's indexer
reads them and keeps the letters in MongoDB, and a replay sends `original.*`, `first-failed-at` and `attempts` along. A
record that fails again keeps those and gets the rest anew, so headers do not grow from one failure to the next.
"""

from __future__ import annotations

import traceback
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from cairn_shared.events import NAMESPACE
from cairn_shared.kafka.records import Headers, Partition, Record

PREFIX = "cairn.dlq."
REPLAY_PREFIX = "cairn.replay."
"""Headers that a replay adds: `id`, `letter` (of which), `by`, `count`. They are kept when the record fails again."""

SCHEMA = "1"
MESSAGE_LIMIT = 1024
STACK_LIMIT = 8 * 1024
HEADER_ALLOWANCE = 64 * 1024
"""By how much a dead letter may be larger than the largest record; its topic must allow for it."""

FailureClass = Literal["permanent", "unknown", "crash"]
_KEPT = ("id", "original.", "first-failed-at")


@dataclass(frozen=True)
class Failure:
    """Why a record cannot be processed. `stage` is one of `PermanentError.stage`, or `unknown`."""

    stage: str
    kind: FailureClass
    exception_type: str
    message: str
    attempts: int
    first_failed_at: datetime
    last_failed_at: datetime
    cause: str | None = None
    stack: str = ""


def failure_of(
    error: BaseException, *, stage: str, kind: FailureClass, attempts: int, first: datetime, last: datetime
) -> Failure:
    """The failure that `error` stands for, with its root cause and its stack."""
    root = error
    while (deeper := root.__cause__ or root.__context__) is not None:
        root = deeper
    return Failure(
        stage=stage,
        kind=kind,
        exception_type=_full_name(error),
        cause=None if root is error else _full_name(root),
        message=str(error),
        stack="".join(traceback.format_exception(error)),
        attempts=attempts,
        first_failed_at=first,
        last_failed_at=last,
    )


def dead_letter_id(group: str, origin: Partition, offset: int) -> uuid.UUID:
    """The same failure twice is one dead letter: its id follows from where the record lay."""
    return uuid.uuid5(NAMESPACE, f"dead-letter|{group}|{origin.topic}|{origin.number}|{offset}")


def dead_letter_headers(
    record: Record, failure: Failure, *, group: str, app_version: str, pipeline: str, git_sha: str | None = None
) -> Headers:
    """The record's own headers as they are, then ours."""
    own = tuple((name, value) for name, value in record.headers if not name.startswith(PREFIX))
    added = {
        "schema": SCHEMA,
        "id": str(dead_letter_id(group, record.home, record.offset)),
        "original.topic": record.topic,
        "original.partition": str(record.partition),
        "original.offset": str(record.offset),
        "original.timestamp": "" if record.timestamp_ms is None else str(record.timestamp_ms),
        "original.timestamp-type": record.timestamp_type or "",
        "original.key-null": _flag(record.key is None),
        "original.value-null": _flag(record.value is None),
        "group": group,
        "stage": failure.stage,
        "class": failure.kind,
        "exception.type": failure.exception_type,
        "exception.cause": failure.cause or "",
        "exception.message": _cut(failure.message, MESSAGE_LIMIT, keep_tail=False),
        "exception.stack": _cut(failure.stack, STACK_LIMIT, keep_tail=True),
        "attempts": str(failure.attempts),
        "first-failed-at": failure.first_failed_at.isoformat(),
        "last-failed-at": failure.last_failed_at.isoformat(),
        "app.version": app_version,
        "git.sha": git_sha or "",
        "pipeline.version": pipeline,
    }
    encoded = {name: value.encode("utf-8", "backslashreplace") for name, value in added.items()}
    before = details(record.headers)
    for name, value in before.items():
        if name.startswith(_KEPT) and name in encoded:
            encoded[name] = value.encode("utf-8", "backslashreplace")
    if before.get("attempts", "").isdigit():
        encoded["attempts"] = str(int(before["attempts"]) + failure.attempts).encode()
    return own + tuple((PREFIX + name, value) for name, value in encoded.items())


def details(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, str]:
    """Our headers, without their prefix, as text."""
    return {
        name.removeprefix(PREFIX): (value or b"").decode("utf-8", "replace")
        for name, value in headers
        if name.startswith(PREFIX)
    }


def original_headers(headers: Iterable[tuple[str, bytes | None]]) -> Headers:
    """The headers that the record had before it failed."""
    return tuple((name, value) for name, value in headers if not name.startswith((PREFIX, REPLAY_PREFIX)))


def _full_name(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _cut(text: str, limit: int, *, keep_tail: bool) -> str:
    raw = text.encode("utf-8", "backslashreplace")
    if len(raw) <= limit:
        return text
    return (raw[-limit:] if keep_tail else raw[:limit]).decode("utf-8", "ignore")
