"""`Leases` in MongoDB. The server's `$$NOW` decides, so that the clocks of the holders need not agree."""

from __future__ import annotations

from cairn_gateway.model import Lease
from cairn_shared import mongo
from cairn_shared.errors import Conflict, TransientError


class MongoLeases:
    """One document a lease: holder, term, expires_at."""

    def __init__(self, collection: mongo.Collection) -> None:
        self._collection = collection

    async def acquire(self, name: str, holder: str, seconds: float) -> Lease:
        ours = {"$eq": ["$holder", holder]}
        # As numbers: SecantusDB takes a stored date for smaller than $$NOW whatever their values.
        over = {"$lte": [{"$ifNull": [{"$toLong": "$expires_at"}, 0]}, {"$toLong": "$$NOW"}]}
        next_term = {"$add": [{"$ifNull": ["$term", 0]}, 1]}
        update: list[mongo.Document] = [
            {"$set": {"ours": ours, "free": {"$or": [ours, over]}}},
            {
                "$set": {
                    "term": {"$cond": [{"$and": ["$free", {"$not": ["$ours"]}]}, next_term, "$term"]},
                    "holder": {"$cond": ["$free", holder, "$holder"]},
                    "expires_at": {"$cond": ["$free", {"$add": ["$$NOW", int(seconds * 1000)]}, "$expires_at"]},
                }
            },
            {"$unset": ["ours", "free"]},
        ]
        try:
            with mongo.translated():
                document = await self._collection.find_one_and_update(
                    {"_id": name}, update, upsert=True, return_document=mongo.AFTER
                )
        except Conflict as exc:  # two made the document at once
            raise TransientError("mongo: another holder came first") from exc
        assert document is not None
        return Lease(document["holder"], document["term"], document["expires_at"])

    async def release(self, name: str, holder: str) -> None:
        with mongo.translated():
            await self._collection.update_one(
                {"_id": name, "holder": holder}, [{"$set": {"expires_at": "$$NOW", "holder": None}}]
            )

    async def find(self, name: str) -> Lease | None:
        """Who leads, for the status page."""
        with mongo.translated():
            document = await self._collection.find_one({"_id": name})
        if document is None or document.get("holder") is None:
            return None
        return Lease(document["holder"], document["term"], document["expires_at"])
