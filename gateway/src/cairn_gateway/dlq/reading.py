"""A record of a dead letter topic as a `Letter`. Pure; it never fails, whatever the record holds.

A letter's id follows from what it is: from its event and content where it tells an event, else from where the record
lay and its content. The content is in it because a broker with its log in memory counts offsets from zero again after
a restart; the event is, because such an event, published again, lies at another offset. So a letter that is read or
written twice is one, and two records are never taken for one.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from cairn_gateway.dlq.model import Failure, Letter
from cairn_shared.events import NAMESPACE, PAYLOADS
from cairn_shared.kafka.dead_letters import REPLAY_PREFIX, details, original_headers
from cairn_shared.kafka.records import Headers, Record

LARGEST_VALUE = 12 * 1024 * 1024
"""Bytes: a MongoDB document holds 16 MiB. A topic made by `migrate` takes much less."""

_SHAPES = (
    (re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"), "<uuid>"),
    (re.compile(r"'[^']*'|\"[^\"]*\""), "<text>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b", re.IGNORECASE), "<hex>"),
    (re.compile(r"\d+"), "<n>"),
)


def letter_of(record: Record, now: datetime) -> Letter:
    """The letter that lies at `record`, a record of a dead letter topic."""
    told = details(record.headers)
    headers = original_headers(record.headers)
    value = _object(record.value)
    event_id = _event_id(headers, value)
    topic = told.get("original.topic") or record.topic.removesuffix(".dlq")
    partition = _number(told.get("original.partition"), record.partition)
    offset = _number(told.get("original.offset"), record.offset)
    key = None if told.get("original.key-null") == "true" else record.key
    kept = len(record.value or b"") <= LARGEST_VALUE
    failure = _failure(told, record, now)
    return Letter(
        id=replayed_letter(record.headers) or letter_id(topic, partition, offset, event_id, content_of(record, key)),
        topic=topic,
        partition=partition,
        offset=offset,
        key=key,
        value=record.value if kept else None,
        headers=headers,
        timestamp_ms=_optional_number(told.get("original.timestamp")) or record.timestamp_ms,
        group=told.get("group", ""),
        size=record.size,
        value_kept=kept,
        event_id=event_id,
        event_type=_event_type(headers, value),
        source=_text(value.get("source"), 200),
        subject=_text(value.get("subject"), 1000),
        part=_part(value),
        version=value["version"] if isinstance(value.get("version"), int) else None,
        fingerprint=fingerprint(failure),
        failure=failure,
        indexed_at=now,
        traceparent=_header(headers, "traceparent"),
        replay_count=_number(_replay_header(record.headers, "count"), 0),
    )


def letter_id(topic: str, partition: int, offset: int, event_id: uuid.UUID | None, content: str) -> uuid.UUID:
    """The id of a letter; `content` is the hex digest of `content_of`."""
    place = str(event_id) if event_id else f"{partition}|{offset}"
    return uuid.uuid5(NAMESPACE, f"letter|{topic}|{place}|{content}")


def content_of(record: Record, key: bytes | None) -> str:
    """Hex SHA-256 of key and value; None and empty differ."""
    digest = hashlib.sha256()
    for part in (key, record.value):
        digest.update(b"-" if part is None else b"+%d:" % len(part) + part)
    return digest.hexdigest()


def replay_id(headers: Headers) -> uuid.UUID | None:
    """The replay that this record came by, if it came by one."""
    return _uuid(_replay_header(headers, "id"))


def replayed_letter(headers: Headers) -> uuid.UUID | None:
    """The letter that was replayed as this record."""
    return _uuid(_replay_header(headers, "letter"))


def fingerprint(failure: Failure) -> str:
    """The same for failures with the same cause: numbers, ids and quoted text of the message do not count."""
    shape = failure.message.split("\n", 1)[0]
    for pattern, mark in _SHAPES:
        shape = pattern.sub(mark, shape)
    text = "|".join((failure.stage, failure.kind, failure.exception, failure.cause, shape[:300]))
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12]


def _failure(told: Mapping[str, str], record: Record, now: datetime) -> Failure:
    written = now if record.timestamp_ms is None else datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
    last = _moment(told.get("last-failed-at")) or written
    return Failure(
        stage=told.get("stage") or "unknown",
        kind=told.get("class") or "unknown",
        exception=told.get("exception.type", ""),
        cause=told.get("exception.cause", ""),
        message=told.get("exception.message", ""),
        stack=told.get("exception.stack", ""),
        attempts=_number(told.get("attempts"), 1),
        first_failed_at=_moment(told.get("first-failed-at")) or last,
        last_failed_at=last,
        app_version=told.get("app.version", ""),
        git_sha=told.get("git.sha", ""),
        pipeline=told.get("pipeline.version", ""),
    )


def _object(value: bytes | None) -> dict[str, Any]:
    try:
        found = orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _event_id(headers: Headers, value: Mapping[str, Any]) -> uuid.UUID | None:
    """As the consumer finds it when it writes the ledger: the header first, then the value."""
    in_value = value.get("event_id")
    return _uuid(_header(headers, "event-id")) or _uuid(in_value if isinstance(in_value, str) else None)


def _part(value: Mapping[str, Any]) -> str:
    payload = value.get("payload")
    return (_text(payload.get("part"), 1000) if isinstance(payload, dict) else None) or ""


def _event_type(headers: Headers, value: Mapping[str, Any]) -> str:
    for candidate in (_header(headers, "event-type"), value.get("type")):
        if candidate in PAYLOADS:
            return str(candidate)
    return "unknown"


def _header(headers: Headers, name: str) -> str | None:
    """The last header of that name, as text."""
    found = next((value for key, value in reversed(headers) if key == name), None)
    return None if found is None else found.decode("utf-8", "replace")[:1000]


def _replay_header(headers: Headers, name: str) -> str | None:
    return _header(headers, REPLAY_PREFIX + name)


def _uuid(text: str | None) -> uuid.UUID | None:
    try:
        return uuid.UUID(text or "")
    except ValueError:
        return None


def _number(text: str | None, default: int) -> int:
    number = _optional_number(text)
    return default if number is None else number


def _optional_number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else None


def _moment(text: str | None) -> datetime | None:
    """In whole milliseconds, as MongoDB keeps it."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    if found.tzinfo is None:
        return None
    return found.astimezone(UTC).replace(microsecond=found.microsecond // 1000 * 1000)


def _text(value: object, limit: int) -> str | None:
    return value[:limit] if isinstance(value, str) else None
