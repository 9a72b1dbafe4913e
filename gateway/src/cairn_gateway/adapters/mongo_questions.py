"""The question log in MongoDB: pages for operators, and what is asked again and again without an answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from cairn_gateway.adapters.mongo_records import MongoRecords
from cairn_shared import mongo
from cairn_shared.mongo import Document, Index

QUESTIONS = "questions"
INDEXES = (
    Index("by_time", (("asked_at", -1), ("_id", 1))),
    Index("by_mode", (("mode", 1), ("asked_at", -1), ("_id", 1))),
    Index("by_user", (("user_id", 1), ("asked_at", -1), ("_id", 1))),
    Index("by_cited", (("cited.runbook_id", 1), ("asked_at", -1), ("_id", 1))),
    Index("by_alert", (("alert", 1), ("asked_at", -1), ("_id", 1))),
    Index("by_request", (("request_id", 1),)),
    Index("expiry", (("expires_at", 1),), {"expireAfterSeconds": 0}),
)


class MongoQuestions:
    """The collection `questions`. Every method raises TransientError when MongoDB is away."""

    def __init__(self, database: mongo.Database) -> None:
        self._questions = database[QUESTIONS]
        self._feedback = database["feedback"]
        self._records = MongoRecords(self._questions, "asked_at", INDEXES)

    async def ensure_indexes(self) -> None:
        await self._records.ensure_indexes()

    async def add(self, documents: Sequence[Document]) -> None:
        """Store questions; those that are there already stay as they are."""
        with mongo.translated():
            try:
                await self._questions.insert_many(list(documents), ordered=False)
            except mongo.BulkWriteFailure as exc:
                if not mongo.only_duplicates(exc):
                    raise

    async def page(self, wanted: Document, after: str | None, limit: int) -> tuple[list[Document], str | None]:
        """Questions that have the given fields (None: any), newest first, each with the feedback on it."""
        found, following = await self._records.page(wanted, after, limit)
        said = await self._said([one["request_id"] for one in found if one.get("request_id")])
        return [{**one, "feedback": said.get(one.get("request_id"), [])} for one in found], following

    async def gaps(self, since: datetime, limit: int) -> list[Document]:
        """Questions refused since then, those that say the same together, the most asked first."""
        stages: list[Document] = [
            {"$match": {"mode": "refused", "asked_at": {"$gte": since}}},
            {"$sort": {"asked_at": 1}},
            {
                "$group": {
                    "_id": "$shape",
                    "count": {"$sum": 1},
                    "users": {"$addToSet": "$user_id"},
                    "question": {"$last": "$question"},
                    "alert": {"$last": "$alert"},
                    "nearest": {"$last": "$nearest"},
                    "first_asked_at": {"$min": "$asked_at"},
                    "last_asked_at": {"$max": "$asked_at"},
                }
            },
            {"$sort": {"count": -1, "last_asked_at": -1}},
            {"$limit": limit},
        ]
        with mongo.translated():
            return [{**one, "users": len(one["users"])} async for one in self._questions.aggregate(stages)]

    async def counts(self, since: datetime) -> Document:
        """How many questions since then, by mode, by day and mode, and which runbooks they were answered from."""
        match: Document = {"$match": {"asked_at": {"$gte": since}}}
        day = {"$dateToString": {"format": "%Y-%m-%d", "date": "$asked_at"}}
        by_day: list[Document] = [match, {"$group": {"_id": {"day": day, "mode": "$mode"}, "count": {"$sum": 1}}}]
        cited: list[Document] = [
            match,
            {"$unwind": "$cited"},
            {"$group": {"_id": "$cited.runbook_id", "questions": {"$addToSet": "$_id"}, "last": {"$max": "$asked_at"}}},
        ]
        asked: list[Document] = [
            match,
            {"$group": {"_id": "$shape", "count": {"$sum": 1}, "question": {"$last": "$question"}}},
            {"$sort": {"count": -1, "_id": 1}},
            {"$limit": 20},
        ]
        with mongo.translated():
            days = [one async for one in self._questions.aggregate(by_day)]
            runbooks = [one async for one in self._questions.aggregate(cited)]
            most = [one async for one in self._questions.aggregate(asked)]
        return {
            "days": [{"day": one["_id"]["day"], "mode": one["_id"]["mode"], "count": one["count"]} for one in days],
            "runbooks": {one["_id"]: {"questions": len(one["questions"]), "last": one["last"]} for one in runbooks},
            "most_asked": [{"question": one["question"], "count": one["count"]} for one in most],
        }

    async def _said(self, request_ids: Sequence[str]) -> dict[Any, list[Document]]:
        said: dict[Any, list[Document]] = {}
        if request_ids:
            fields = {"request_id": 1, "verdict": 1, "note": 1, "user_id": 1, "created_at": 1, "_id": 0}
            with mongo.translated():
                async for one in self._feedback.find({"request_id": {"$in": list(request_ids)}}, fields):
                    said.setdefault(one["request_id"], []).append(one)
        return said
