"""The gateway's own values."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

IngestStateName = Literal["accepted", "queued", "searchable", "superseded", "dead"]
EntryState = Literal["pending", "published", "settled", "refused"]


class Role(StrEnum):
    """What a user may do; each role may do what those before it may."""

    READER = "reader"
    EDITOR = "editor"
    OPERATOR = "operator"
    ADMIN = "admin"

    def covers(self, needed: Role) -> bool:
        """Whether this role is enough where `needed` is asked."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True)
class Principal:
    """Who asks. `key_id` tells the keys of one user apart."""

    user_id: str
    role: Role
    key_id: str


@dataclass(frozen=True)
class Vectors:
    """Embedded texts in order: each vector is little-endian float32 of unit length; `tokens` is their sum."""

    vectors: tuple[bytes, ...]
    fingerprint: str
    tokens: int


@dataclass(frozen=True)
class Entry:
    """An event that waits in the outbox or the inbox, or did."""

    event_id: uuid.UUID
    state: EntryState
    topic: str
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    type: str
    source: str
    subject: str
    version: int
    accepted_at: datetime
    created_at: datetime
    attempts: int
    published_at: datetime | None = None
    settled_at: datetime | None = None
    outcome: IngestStateName | None = None
    detail: str | None = None


@dataclass(frozen=True)
class Depth:
    """How much waits: `unsettled` are on Kafka but, as far as is known, not in the index."""

    pending: int
    unsettled: int
    refused: int
    oldest_pending: datetime | None


@dataclass(frozen=True)
class Lease:
    """A lease as stored; `term` grows with every new holder."""

    holder: str
    term: int
    expires_at: datetime


@dataclass(frozen=True)
class User:
    """Somebody who may use Cairn; keys are stored as hashes only."""

    id: str
    name: str
    role: Role
    email: str | None = None
    team: str | None = None
    keys: tuple[ApiKey, ...] = ()


@dataclass(frozen=True)
class ApiKey:
    """What is known of a key: never the key itself."""

    id: str
    label: str
    created_at: datetime


@dataclass(frozen=True)
class QueryPlan:
    """How MongoDB runs one of our queries."""

    name: str
    collection: str
    filter: Mapping[str, object]
    sort: Mapping[str, int]
    index: str | None
    stages: tuple[str, ...]
    keys_examined: int | None
    documents_examined: int | None
    returned: int | None
