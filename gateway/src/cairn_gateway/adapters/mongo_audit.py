"""Who did what: one line for each act of an operator or admin, in MongoDB, never changed and never deleted."""

from __future__ import annotations

import uuid

from cairn_gateway.adapters.mongo_records import MongoRecords
from cairn_gateway.model import Principal
from cairn_shared import context, mongo
from cairn_shared.clock import Clock
from cairn_shared.mongo import Document, Index

INDEXES = (
    Index("by_time", (("at", -1), ("_id", 1))),
    Index("by_target", (("target", 1), ("at", -1), ("_id", 1))),
    Index("by_user", (("user_id", 1), ("at", -1), ("_id", 1))),
    Index("by_action", (("action", 1), ("at", -1), ("_id", 1))),
)


class MongoAudit:
    """The collection `audit`, as `ports.Audit`. Both methods raise TransientError when MongoDB is away."""

    def __init__(self, collection: mongo.Collection, clock: Clock) -> None:
        self._records = MongoRecords(collection, "at", INDEXES)
        self._clock = clock

    async def ensure_indexes(self) -> None:
        await self._records.ensure_indexes()

    async def note(self, who: Principal, action: str, target: str, detail: str = "") -> None:
        """`who` did `action` to `target`."""
        now = self._clock.now()
        fields = {
            "at": now,
            "user_id": who.user_id,
            "key_id": who.key_id,
            "action": action,
            "target": target,
            "detail": detail[:2000],
            "request_id": context.request_id.get(),
        }
        await self._records.put(uuid.uuid4().hex, fields, now)

    async def page(self, wanted: Document, after: str | None, limit: int) -> tuple[list[Document], str | None]:
        """Lines that have the given fields (None: any), newest first, and the `after` of the next page."""
        return await self._records.page(wanted, after, limit)
