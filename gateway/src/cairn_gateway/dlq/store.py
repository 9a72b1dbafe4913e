"""Letters in MongoDB: found by what operators filter for, and changed only from the revision that was read."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from cairn_gateway.dlq.documents import (
    LETTER_INDEXES,
    SUMMARY,
    WITHOUT_VALUE,
    changes_of,
    condition,
    document_of,
    letter_from,
)
from cairn_gateway.dlq.model import HISTORY, Change, Choice, Group, Letter, Tally
from cairn_shared import mongo
from cairn_shared.clock import Clock
from cairn_shared.errors import InvalidInput, NotFound
from cairn_shared.mongo import Document

_ORDER = [("failure.last_failed_at", -1), ("_id", 1)]
_GROUP_FIELDS = ("count", "open", "stage", "kind", "exception", "message", "oldest", "newest", "example")


@dataclass(frozen=True)
class KeepPolicy:
    """Closed letters are dropped after `keep`; the index is asked about others after these times.

    A replayed letter is asked for soon; then after half its age, at most `check_longest`. An open one, which only a
    redelivery from its source can mend, every `check_open`.
    """

    keep: timedelta = timedelta(days=90)
    check_first: timedelta = timedelta(seconds=0.3)
    check_longest: timedelta = timedelta(seconds=10)
    check_open: timedelta = timedelta(seconds=30)


class MongoLetters:
    """The collection `dlq_entries`. Every method raises TransientError when MongoDB is away."""

    def __init__(self, collection: mongo.Collection, clock: Clock, policy: KeepPolicy = KeepPolicy()) -> None:
        self._letters = collection
        self._clock = clock
        self._policy = policy

    async def ensure_indexes(self) -> None:
        await mongo.ensure_indexes(self._letters, LETTER_INDEXES)

    async def add(self, letters: Sequence[Letter]) -> None:
        """Store letters that are not there; one that is there already stays as it is."""
        if not letters:
            return
        documents = [document_of(letter) | self._times(letter) for letter in letters]
        with mongo.translated():
            try:
                await self._letters.insert_many(documents, ordered=False)
            except mongo.BulkWriteFailure as exc:
                if not mongo.only_duplicates(exc):
                    raise

    async def save(self, letter: Letter) -> Letter | None:
        """Write a changed letter, and give it back in its new revision; None where it was changed since it was read."""
        times = self._times(letter)
        fields = changes_of(letter) | {name: value for name, value in times.items() if value is not None}
        change: Document = {"$set": fields, "$inc": {"rev": 1}}
        if gone := {name: 1 for name, value in times.items() if value is None}:
            change["$unset"] = gone
        with mongo.translated():
            result = await self._letters.update_one({"_id": letter.id, "rev": letter.rev}, change)
        return replace(letter, rev=letter.rev + 1) if result.matched_count else None

    async def get(self, letter_id: uuid.UUID) -> Letter:
        """One letter with everything.

        Raises:
            NotFound: there is no such letter.
        """
        found = await self.find([letter_id])
        if letter_id not in found:
            raise NotFound(f"there is no dead letter {letter_id}")
        return found[letter_id]

    async def find(self, ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Letter]:
        """Those that there are, by id, with everything."""
        with mongo.translated():
            cursor = self._letters.find({"_id": {"$in": list(ids)}})
            return {document["_id"]: letter_from(document) async for document in cursor}

    async def page(self, choice: Choice, after: str | None, limit: int) -> tuple[list[Letter], str | None]:
        """Summaries, the last failed first, and the `after` of the next page.

        Raises:
            InvalidInput: `after` is not what a page gave.
        """
        query: Document = condition(choice)
        if after is not None:
            moment, last = _position(after)
            before = {"failure.last_failed_at": {"$lt": moment}}
            query = {"$and": [query, {"$or": [before, {"failure.last_failed_at": moment, "_id": {"$gt": last}}]}]}
        with mongo.translated():
            cursor = self._letters.find(query, SUMMARY).sort(_ORDER).limit(limit + 1)
            found = [letter_from(document) async for document in cursor]
        if len(found) <= limit:
            return found, None
        last_one = found[limit - 1]
        return found[:limit], f"{last_one.failure.last_failed_at.isoformat()}~{last_one.id}"

    async def each(self, choice: Choice, limit: int) -> AsyncIterator[Letter]:
        """Letters with everything, the longest dead first."""
        with mongo.translated():
            cursor = self._letters.find(condition(choice), batch_size=50)
            async for document in cursor.sort("failure.first_failed_at", 1).limit(limit):
                yield letter_from(document)

    async def count(self, choice: Choice) -> int:
        with mongo.translated():
            return int(await self._letters.count_documents(condition(choice)))

    async def groups(self, choice: Choice, limit: int) -> list[Group]:
        """Letters with the same fingerprint together, the largest group first."""
        stages: list[Document] = [
            {"$match": condition(choice)},
            {
                "$group": {
                    "_id": "$fingerprint",
                    "count": {"$sum": 1},
                    "open": {"$sum": {"$cond": [{"$eq": ["$state", "open"]}, 1, 0]}},
                    "stage": {"$first": "$failure.stage"},
                    "kind": {"$first": "$failure.kind"},
                    "exception": {"$first": "$failure.exception"},
                    "message": {"$first": "$failure.message"},
                    "topics": {"$addToSet": "$topic"},
                    "sources": {"$addToSet": "$source"},
                    "oldest": {"$min": "$failure.first_failed_at"},
                    "newest": {"$max": "$failure.last_failed_at"},
                    "example": {"$first": "$_id"},
                }
            },
            {"$sort": {"count": -1, "_id": 1}},
            {"$limit": limit},
        ]
        with mongo.translated():
            found = [document async for document in self._letters.aggregate(stages)]
        return [
            Group(
                fingerprint=one["_id"],
                topics=tuple(sorted(one["topics"])),
                sources=tuple(sorted(source for source in one["sources"] if source)),
                **{name: one[name] for name in _GROUP_FIELDS},
            )
            for one in found
        ]

    async def tally(self) -> Tally:
        """How many there are in each state."""
        with mongo.translated():
            stages = [{"$group": {"_id": "$state", "count": {"$sum": 1}}}]
            counts = {one["_id"]: one["count"] async for one in self._letters.aggregate(stages)}
            oldest = await self._letters.find_one(
                {"state": "open"}, {"failure.first_failed_at": 1}, sort=[("failure.first_failed_at", 1)]
            )
        return Tally(counts, oldest["failure"]["first_failed_at"] if oldest else None)

    async def indexed(self, event_ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
        """Those of the events of which there is a letter."""
        with mongo.translated():
            cursor = self._letters.find({"event_id": {"$in": list(event_ids)}}, {"event_id": 1})
            return {document["event_id"] async for document in cursor}

    async def edited_as(self, event_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, uuid.UUID]:
        """By the id of an edited event, the letter that was edited."""
        with mongo.translated():
            cursor = self._letters.find({"edited_to": {"$in": list(event_ids)}}, {"edited_to": 1})
            return {document["edited_to"]: document["_id"] async for document in cursor}

    async def due_for_check(self, limit: int) -> list[Letter]:
        """Letters not closed, and not asked for lately: the index may know more. Those on their way come first."""
        now = self._clock.now()
        found: list[Letter] = []
        with mongo.translated():
            for state in ("replaying", "open"):
                due = {"state": state, "check_at": {"$lte": now}}
                cursor = self._letters.find(due, WITHOUT_VALUE).sort("check_at", 1).limit(limit - len(found))
                found += [letter_from(document) async for document in cursor]
                if len(found) >= limit:
                    break
        return found

    async def check_later(self, letters: Sequence[Letter]) -> None:
        """The index knew no more of them."""
        now, policy = self._clock.now(), self._policy
        with mongo.translated():
            if ids := [letter.id for letter in letters if letter.state == "open"]:
                later = {"$set": {"check_at": now + policy.check_open}}
                await self._letters.update_many({"_id": {"$in": ids}, "state": "open"}, later)
            waits: dict[timedelta, list[uuid.UUID]] = {}
            for letter in letters:
                if letter.state == "replaying" and letter.replay is not None:
                    waits.setdefault(self._wait(now - letter.replay.at), []).append(letter.id)
            for wait, ids in waits.items():
                later = {"$set": {"check_at": now + wait}}
                await self._letters.update_many({"_id": {"$in": ids}, "state": "replaying"}, later)

    async def claim(self, ids: Collection[uuid.UUID], job: str) -> int:
        """Mark open letters, of no other job yet, as those of `job`; how many."""
        query = {"_id": {"$in": list(ids)}, "state": "open", "pending_job": None}
        with mongo.translated():
            result = await self._letters.update_many(query, {"$set": {"pending_job": job}, "$inc": {"rev": 1}})
        return int(result.modified_count)

    async def fitting(self, choice: Choice, limit: int, *, max_replays: int | None) -> list[uuid.UUID]:
        """Ids of open letters that a job can take, the longest dead first."""
        query = condition(replace(choice, state="open")) | {"pending_job": None, "value_kept": True}
        if max_replays is not None:
            query["replay_count"] = {"$lt": max_replays}
        with mongo.translated():
            cursor = self._letters.find(query, {"_id": 1}).sort("failure.first_failed_at", 1).limit(limit)
            return [document["_id"] async for document in cursor]

    async def waiting(self, job: str, limit: int) -> list[Letter]:
        """Letters that a job has still to send, with everything, the longest dead first."""
        with mongo.translated():
            cursor = self._letters.find({"pending_job": job})
            cursor = cursor.sort([("failure.first_failed_at", 1), ("_id", 1)]).limit(limit)
            return [letter_from(document) async for document in cursor]

    async def release(self, job: str, ids: Collection[uuid.UUID] | None = None) -> int:
        """Take letters out of a job, all that wait in it or these."""
        query: Document = {"pending_job": job} | ({"_id": {"$in": list(ids)}} if ids is not None else {})
        with mongo.translated():
            result = await self._letters.update_many(query, {"$set": {"pending_job": None}, "$inc": {"rev": 1}})
        return int(result.modified_count)

    async def of_job(self, job: str) -> Mapping[str, int]:
        """How many letters whose last replay was this job's are in each state, and `waiting` those not yet sent."""
        stages: list[Document] = [{"$match": {"replay.job": job}}, {"$group": {"_id": "$state", "count": {"$sum": 1}}}]
        with mongo.translated():
            counts = {one["_id"]: int(one["count"]) async for one in self._letters.aggregate(stages)}
            counts["waiting"] = int(await self._letters.count_documents({"pending_job": job}))
        return counts

    async def discard(self, ids: Collection[uuid.UUID], *, by: str, reason: str) -> int:
        """Discard open letters; how many."""
        now = self._clock.now()
        fields = {"state": "discarded", "reason": reason, "closed_at": now, "closed_by": by, "pending_job": None}
        change: Document = {
            "$set": fields | {"expires_at": now + self._policy.keep},
            "$unset": {"check_at": 1},
            "$inc": {"rev": 1},
            "$push": {
                "history": {"$each": [asdict(Change(now, "discarded", by, reason))], "$slice": -HISTORY},
            },
        }
        with mongo.translated():
            result = await self._letters.update_many({"_id": {"$in": list(ids)}, "state": "open"}, change)
        return int(result.modified_count)

    def _times(self, letter: Letter) -> Document:
        """When the index is asked about it, and when it is dropped; None: never."""
        now, policy = self._clock.now(), self._policy
        if letter.closed:
            return {"check_at": None, "expires_at": (letter.closed_at or now) + policy.keep}
        if letter.settling_event is None:
            return {"check_at": None, "expires_at": None}
        wait = policy.check_first if letter.state == "replaying" else policy.check_open
        return {"check_at": now + wait, "expires_at": None}

    def _wait(self, age: timedelta) -> timedelta:
        half = timedelta(seconds=round(age.total_seconds() / 2, 1))
        return min(self._policy.check_longest, max(self._policy.check_first, half))


def _position(after: str) -> tuple[datetime, uuid.UUID]:
    moment, _, last = after.partition("~")
    try:
        return datetime.fromisoformat(moment), uuid.UUID(last)
    except ValueError as exc:
        raise InvalidInput("after must be the `next` of a page", field="after") from exc
