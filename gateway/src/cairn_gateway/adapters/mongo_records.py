"""Executions (who ran which step with what outcome) and feedback, in MongoDB."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from cairn_shared import mongo
from cairn_shared.errors import InvalidInput
from cairn_shared.mongo import Document, Index

EXECUTION_INDEXES = (
    Index("by_time", (("started_at", -1), ("_id", 1))),
    Index("by_runbook", (("runbook_id", 1), ("started_at", -1), ("_id", 1))),
    Index("by_user", (("user_id", 1), ("started_at", -1), ("_id", 1))),
)
FEEDBACK_INDEXES = (
    Index("by_runbook", (("runbook_id", 1), ("created_at", -1), ("_id", 1))),
    Index("by_verdict", (("verdict", 1), ("created_at", -1), ("_id", 1))),
    Index("by_time", (("created_at", -1), ("_id", 1))),
    Index("by_request", (("request_id", 1),)),
)


class MongoRecords:
    """One collection of records, listed newest first by `time`."""

    def __init__(self, collection: mongo.Collection, time: str, indexes: tuple[Index, ...]) -> None:
        self._collection = collection
        self._time = time
        self._indexes = indexes

    async def ensure_indexes(self) -> None:
        await mongo.ensure_indexes(self._collection, self._indexes)

    async def put(self, record_id: str, fields: dict[str, Any], recorded_at: datetime) -> str:
        """Create or change; `created`, `changed` or `unchanged`."""
        fields = {name: _whole_milliseconds(value) for name, value in fields.items()}
        before = await mongo.put(self._collection, record_id, fields, {"recorded_at": recorded_at})
        if before is None:
            return "created"
        return "unchanged" if all(before.get(name) == value for name, value in fields.items()) else "changed"

    async def page(self, wanted: Document, after: str | None, limit: int) -> tuple[list[Document], str | None]:
        """Records that have the given fields (None: any), newest first, and the `after` of the next page.

        Raises:
            InvalidInput: `after` is not what a page gave.
        """
        chosen = {name: value for name, value in wanted.items() if value is not None}
        if after is not None:
            moment, last = _position(after)
            chosen["$or"] = [{self._time: {"$lt": moment}}, {self._time: moment, "_id": {"$gt": last}}]
        with mongo.translated():
            cursor = self._collection.find(chosen).sort([(self._time, -1), ("_id", 1)]).limit(limit + 1)
            found = [{**document, "id": document["_id"]} async for document in cursor]
        if len(found) <= limit:
            return found, None
        last_one = found[limit - 1]
        return found[:limit], f"{last_one[self._time].isoformat()}~{last_one['_id']}"


def _position(after: str) -> tuple[datetime, str]:
    moment, _, last = after.partition("~")
    try:
        return datetime.fromisoformat(moment), last
    except ValueError as exc:
        raise InvalidInput("after must be the `next` of a page", field="after") from exc


def _whole_milliseconds(value: Any) -> Any:
    """A time as MongoDB keeps it, so that a repeated record equals itself."""
    if isinstance(value, datetime):
        return value.replace(microsecond=value.microsecond // 1000 * 1000)
    return value
