"""`Spool` over one MongoDB collection whose documents have the form of `cairn_shared.runbooks.outbox`."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from cairn_gateway.model import Depth, Entry, IngestStateName
from cairn_shared import context, mongo
from cairn_shared.clock import Clock
from cairn_shared.events import Event
from cairn_shared.mongo import Document
from cairn_shared.runbooks import outbox
from cairn_shared.runbooks.outbox import PACKED, PENDING, PUBLISHED, REFUSED, SETTLED


@dataclass(frozen=True)
class SpoolPolicy:
    """Entries that are done with are kept for `keep`. With `settles`, done means settled, else published.

    The index is asked first `check_after` a publication, when it mostly has the entry, then after half its age each
    time, at most `check_longest`: every time that it has not costs a write.
    """

    keep: timedelta
    settles: bool
    check_after: timedelta = timedelta(seconds=1)
    check_longest: timedelta = timedelta(seconds=10)


class MongoSpool:
    """The outbox (filled by the runbook store) or the inbox (filled by `add`)."""

    def __init__(self, collection: mongo.Collection, clock: Clock, policy: SpoolPolicy) -> None:
        self._collection = collection
        self._clock = clock
        self._policy = policy

    @property
    def name(self) -> str:
        return str(self._collection.name)

    @property
    def settles(self) -> bool:
        return self._policy.settles

    async def ensure_indexes(self) -> None:
        await mongo.ensure_indexes(self._collection, outbox.INDEXES)

    async def add(self, events: Sequence[Event]) -> None:
        if not events:
            return
        now = self._clock.now()
        trace = context.traceparent.get()
        documents = [outbox.entry(event, now, trace) for event in events]
        with mongo.translated():
            await self._insert(documents if len(documents) <= outbox.PARCEL else list(outbox.packed(documents)))

    async def pending(self, limit: int) -> list[Entry]:
        """As `ports.Spool.pending`. A parcel is unpacked when its turn comes."""
        with mongo.translated():
            found = await self._pending(limit)
            turn: Document = {"created_at": {"$lte": found[-1].created_at}} if len(found) == limit else {}
            if await self._unpack(turn):
                found = await self._pending(limit)
            return found

    async def _pending(self, limit: int) -> list[Entry]:
        cursor = self._collection.find({"state": PENDING}).sort([("created_at", 1), ("_id", 1)]).limit(limit)
        return [_entry(document) async for document in cursor]

    async def _unpack(self, turn: Document) -> bool:
        """One parcel as entries. Ending in between is harmless: what is an entry already is not made again."""
        parcel = await self._collection.find_one({"state": PACKED, **turn}, sort=[("created_at", 1), ("_id", 1)])
        if parcel is None:
            return False
        await self._insert(parcel["entries"])
        await self._collection.delete_one({"_id": parcel["_id"]})
        return True

    async def _insert(self, documents: Sequence[Document]) -> None:
        """Those that are not there already."""
        try:
            await self._collection.insert_many(list(documents), ordered=False)
        except mongo.BulkWriteFailure as exc:
            if not mongo.only_duplicates(exc):
                raise

    async def mark_published(self, event_ids: Collection[uuid.UUID], term: int) -> None:
        now = self._clock.now()
        fields: Document = {"state": PUBLISHED, "published_at": now, "term": term}
        if self._policy.settles:
            fields["check_at"] = now + self._policy.check_after
        else:
            fields["expires_at"] = now + self._policy.keep
        await self._update(event_ids, PENDING, {"$set": fields, "$inc": {"attempts": 1}})

    async def refuse(self, event_id: uuid.UUID, detail: str) -> None:
        fields = {"state": REFUSED, "detail": detail, "outcome": "dead", "settled_at": self._clock.now()}
        await self._update([event_id], PENDING, {"$set": fields})

    async def due_for_check(self, limit: int) -> list[Entry]:
        due = {"state": PUBLISHED, "check_at": {"$lte": self._clock.now()}}
        with mongo.translated():
            cursor = self._collection.find(due, {"value": 0, "headers": 0}).sort("check_at", 1).limit(limit)
            return [_entry(document) async for document in cursor]

    async def settle(self, outcomes: Mapping[uuid.UUID, IngestStateName]) -> None:
        now = self._clock.now()
        for outcome in sorted(set(outcomes.values())):
            ids = [event_id for event_id, what in outcomes.items() if what == outcome]
            fields = {"state": SETTLED, "outcome": outcome, "settled_at": now, "expires_at": now + self._policy.keep}
            await self._update(ids, PUBLISHED, {"$set": fields, "$unset": {"check_at": 1}})

    async def check_later(self, event_ids: Collection[uuid.UUID]) -> None:
        now = self._clock.now()
        shortest = self._policy.check_after // timedelta(milliseconds=1)
        longest = self._policy.check_longest // timedelta(milliseconds=1)
        age = {"$subtract": [now, "$published_at"]}
        wait = {"$min": [longest, {"$max": [shortest, {"$divide": [age, 2]}]}]}
        await self._update(event_ids, PUBLISHED, [{"$set": {"check_at": {"$add": [now, wait]}}}])

    async def publish_again(self, event_ids: Collection[uuid.UUID]) -> None:
        await self._update(event_ids, PUBLISHED, {"$set": {"state": PENDING}, "$unset": {"check_at": 1}})

    async def find(self, event_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Entry]:
        with mongo.translated():
            cursor = self._collection.find({"_id": {"$in": list(event_ids)}}, {"value": 0, "headers": 0})
            found = {document["_id"]: _entry(document) async for document in cursor}
            if missing := set(event_ids) - found.keys():
                parcels = self._collection.find({"state": PACKED, "event_ids": {"$in": list(missing)}})
                waiting = [entry async for parcel in parcels for entry in parcel["entries"]]
                found |= {entry["_id"]: _entry(entry) for entry in waiting if entry["_id"] in missing}
            return found

    async def depth(self) -> Depth:
        with mongo.translated():
            pending = await self._collection.count_documents({"state": PENDING})
            parcels = self._collection.find({"state": PACKED}, {"event_ids": 1})
            pending += sum([len(parcel["event_ids"]) async for parcel in parcels])
            oldest = await self._collection.find_one(
                {"state": {"$in": [PACKED, PENDING]}}, {"created_at": 1}, sort=[("created_at", 1), ("_id", 1)]
            )
            unsettled = await self._collection.count_documents({"state": PUBLISHED}) if self.settles else 0
            refused = await self._collection.count_documents({"state": REFUSED})
        return Depth(pending, unsettled, refused, oldest["created_at"] if oldest else None)

    async def _update(self, event_ids: Collection[uuid.UUID], state: str, change: Document | list[Document]) -> None:
        if not event_ids:
            return
        with mongo.translated():
            await self._collection.update_many({"_id": {"$in": list(event_ids)}, "state": state}, change)


def _entry(document: Document) -> Entry:
    return Entry(
        event_id=document["_id"],
        state=document["state"],
        topic=document["topic"],
        key=document["key"],
        value=document.get("value", b""),
        headers=tuple((name, value) for name, value in document.get("headers", ())),
        type=document["type"],
        source=document["source"],
        subject=document["subject"],
        version=document["version"],
        accepted_at=document["accepted_at"],
        created_at=document["created_at"],
        attempts=document["attempts"],
        published_at=document.get("published_at"),
        settled_at=document.get("settled_at"),
        outcome=document.get("outcome"),
        detail=document.get("detail"),
    )
