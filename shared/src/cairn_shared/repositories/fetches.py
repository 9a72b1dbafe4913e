"""How far the commits of pushes that their senders cut have been fetched, in MongoDB: the consumer fetches, the gateway
asks it again when there is more.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from pydantic import BaseModel, Field

from cairn_shared import mongo
from cairn_shared.clock import Clock
from cairn_shared.mongo import Database, Index

FETCHES = "push_fetches"
KEEP = timedelta(days=30)
INDEXES = (
    Index("by_retry", (("retry_at", 1),)),
    Index("forgotten", (("expires_at", 1),), {"expireAfterSeconds": 0}),
)


class Fetch(BaseModel):
    """One push. It goes on when `retry_at` has come; without one it has ended, or nobody began."""

    source: str
    cut: Annotated[dict[str, object], Field(description="The `PushCut`.")]
    page: Annotated[int, Field(description="The next page to ask for.")] = 1
    loaded: Annotated[int, Field(description="Commits that came by no webhook.")] = 0
    failures: int = 0
    error: str | None = None
    retry_at: datetime | None = None
    ended_at: datetime | None = None


class FetchStore:
    """Every method raises `Unavailable("mongo")` when MongoDB is away."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._collection = database[FETCHES]
        self._clock = clock

    async def ensure_indexes(self) -> None:
        """Create the indexes that are missing."""
        await mongo.ensure_indexes(self._collection, INDEXES)

    async def find(self, key: str) -> Fetch | None:
        """How far the push `key` is."""
        with mongo.translated():
            document = await self._collection.find_one({"_id": key})
        return None if document is None else Fetch.model_validate(document)

    async def save(self, key: str, fetch: Fetch) -> None:
        """Keep how far it is; one that has ended is forgotten after 30 days."""
        fields = fetch.model_dump(mode="python")
        if fetch.ended_at is not None:
            fields["expires_at"] = fetch.ended_at + KEEP
        with mongo.translated():
            await self._collection.replace_one({"_id": key}, fields, upsert=True)

    async def due(self, patience: timedelta, limit: int = 100) -> list[Fetch]:
        """Those that may go on, each once within `patience`: who asks for them tells the consumer."""
        now = self._clock.now()
        with mongo.translated():
            cursor = self._collection.find({"retry_at": {"$lte": now}}).sort("retry_at", 1).limit(limit)
            found = [document async for document in cursor]
            ids = [document["_id"] for document in found]
            await self._collection.update_many(
                {"_id": {"$in": ids}, "retry_at": {"$lte": now}}, {"$set": {"retry_at": now + patience}}
            )
        return [Fetch.model_validate(document) for document in found]
