"""Figures about runbooks, counted by MongoDB: what was carried out and cited, what is stale, empty or never used."""

from __future__ import annotations

from datetime import datetime

from cairn_gateway.adapters.mongo_questions import MongoQuestions
from cairn_shared import mongo
from cairn_shared.mongo import Document
from cairn_shared.runbooks.store import RUNBOOKS


class MongoStatistics:
    """Every method raises TransientError when MongoDB is away."""

    def __init__(self, database: mongo.Database, questions: MongoQuestions) -> None:
        self._executions = database["executions"]
        self._runbooks = database[RUNBOOKS]
        self._questions = questions

    async def runbooks(self, since: datetime, runbook_id: str | None) -> list[Document]:
        """Executions since then by runbook, the most used first, each with its steps and title."""
        match: Document = {"started_at": {"$gte": since}} | ({"runbook_id": runbook_id} if runbook_id else {})
        tallies: Document = {"executions": {"$sum": "$count"}, "last_used": {"$max": "$last"}}
        for outcome in ("worked", "failed", "skipped"):
            tallies[outcome] = {"$sum": {"$cond": [{"$eq": ["$_id.outcome", outcome]}, "$count", 0]}}
        stages: list[Document] = [
            {"$match": match},
            {
                "$group": {
                    "_id": {"runbook": "$runbook_id", "step": "$step", "outcome": "$outcome"},
                    "count": {"$sum": 1},
                    "last": {"$max": "$started_at"},
                }
            },
            {"$group": {"_id": {"runbook": "$_id.runbook", "step": "$_id.step"}, **tallies}},
            {"$sort": {"_id.runbook": 1, "_id.step": 1}},
            {"$lookup": {"from": RUNBOOKS, "localField": "_id.runbook", "foreignField": "_id", "as": "runbook"}},
        ]
        with mongo.translated():
            steps = [one async for one in self._executions.aggregate(stages)]
        cited = (await self._questions.counts(since))["runbooks"]
        found: dict[str, Document] = {}
        for one in steps:
            name = one["_id"]["runbook"]
            title = one["runbook"][0].get("title") if one["runbook"] else None
            runbook = found.setdefault(name, {"runbook_id": name, "title": title, "steps": []})
            numbers = {key: one[key] for key in ("executions", "worked", "failed", "skipped", "last_used")}
            runbook["steps"].append({"step": one["_id"]["step"], **numbers})
        runbooks: list[Document] = [
            {**runbook, **_summed(runbook["steps"]), "cited": cited.get(name, {}).get("questions", 0)}
            for name, runbook in found.items()
        ]
        return sorted(runbooks, key=lambda one: (-one["executions"], one["runbook_id"]))

    async def coverage(self, since: datetime, stale_before: datetime) -> Document:
        """Runbooks that no answer cited and nobody used since then, that nobody changed lately, and that are empty."""
        fields: Document = {"title": 1, "updated_at": 1, "steps": {"$size": {"$ifNull": ["$steps", []]}}}
        stages: list[Document] = [{"$match": {"deleted": {"$ne": True}}}, {"$project": fields}, {"$sort": {"_id": 1}}]
        used: list[Document] = [{"$match": {"started_at": {"$gte": since}}}, {"$group": {"_id": "$runbook_id"}}]
        with mongo.translated():
            all_of_them = [one async for one in self._runbooks.aggregate(stages)]
            carried_out = {one["_id"] async for one in self._executions.aggregate(used)}
        cited = set((await self._questions.counts(since))["runbooks"])
        return {
            "runbooks": len(all_of_them),
            "never_cited": [_named(one) for one in all_of_them if one["_id"] not in cited],
            "never_used": [_named(one) for one in all_of_them if one["_id"] not in carried_out],
            "stale": [_named(one) for one in all_of_them if one["updated_at"] < stale_before],
            "empty": [_named(one) for one in all_of_them if one["steps"] == 0],
        }


def _summed(steps: list[Document]) -> Document:
    """The figures of a runbook from those of its steps; skipped steps say nothing of success."""
    total = {name: sum(step[name] for step in steps) for name in ("executions", "worked", "failed", "skipped")}
    tried = total["worked"] + total["failed"]
    rate = round(total["worked"] / tried, 4) if tried else None
    return {**total, "success_rate": rate, "last_used": max(step["last_used"] for step in steps)}


def _named(runbook: Document) -> Document:
    return {"runbook_id": runbook["_id"], "title": runbook["title"], "updated_at": runbook["updated_at"]}
