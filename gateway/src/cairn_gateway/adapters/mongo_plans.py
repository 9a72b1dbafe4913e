"""How MongoDB's planner runs the queries of the gateway: `explain` on each, so that an index is evidence, not hope."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cairn_gateway.model import QueryPlan
from cairn_shared import mongo
from cairn_shared.mongo import Document
from cairn_shared.runbooks.store import REVISIONS, RUNBOOKS, RunbookQuery

_NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Query:
    """A query as the code makes it, with example values."""

    name: str
    collection: str
    filter: Document
    sort: dict[str, int]


def queries() -> list[Query]:
    """Every query that must not read a whole collection."""
    by_service = RunbookQuery(service="postgresql", after="a").filter()
    by_tag = RunbookQuery(tag="replication", after="a").filter()
    return [
        Query("runbooks of a service", RUNBOOKS, by_service, {"_id": 1}),
        Query("runbooks with a tag", RUNBOOKS, by_tag, {"_id": 1}),
        Query("runbooks of a repository", RUNBOOKS, {"source": "repo:x", "path": "a.md"}, {}),
        Query("revisions of a runbook", REVISIONS, {"runbook_id": "a"}, {"revision": -1}),
        Query("executions of a runbook", "executions", {"runbook_id": "a"}, {"started_at": -1, "_id": 1}),
        Query("executions of a user", "executions", {"user_id": "a"}, {"started_at": -1, "_id": 1}),
        Query("feedback on a runbook", "feedback", {"runbook_id": "a"}, {"created_at": -1, "_id": 1}),
        Query("owner of an API key", "users", {"keys.hash": "0"}, {}),
        Query("outbox, what waits", "outbox", {"state": "pending"}, {"created_at": 1, "_id": 1}),
        Query("outbox, what to ask for", "outbox", {"state": "published", "check_at": {"$lte": _NOW}}, {"check_at": 1}),
        Query("dead letters, open", "dlq_entries", {"state": "open"}, {"failure.last_failed_at": -1, "_id": 1}),
        Query("dead letters of a group", "dlq_entries", {"fingerprint": "0"}, {"failure.last_failed_at": -1, "_id": 1}),
        Query("dead letters of events", "dlq_entries", {"event_id": {"$in": ["0"]}}, {}),
        Query("dead letters that were edited", "dlq_entries", {"edited_to": {"$in": ["0"]}}, {}),
        Query("dead letters of a replay", "dlq_entries", {"replay.job": "0", "state": "open"}, {}),
        Query(
            "dead letters that wait in a replay",
            "dlq_entries",
            {"pending_job": "0"},
            {"failure.first_failed_at": 1, "_id": 1},
        ),
        Query(
            "dead letters, what to ask for",
            "dlq_entries",
            {"state": "replaying", "check_at": {"$lte": _NOW}},
            {"check_at": 1},
        ),
        Query("dead letters, the oldest", "dlq_entries", {"state": "open"}, {"failure.first_failed_at": 1}),
        Query("replays to carry on", "dlq_jobs", {"state": "running"}, {"created_at": 1}),
        Query("audit of a target", "audit", {"target": "0"}, {"at": -1, "_id": 1}),
        Query("audit, the latest", "audit", {}, {"at": -1, "_id": 1}),
        Query("executions of a time", "executions", {"started_at": {"$gte": _NOW}}, {}),
        Query("questions of a time", "questions", {"asked_at": {"$gte": _NOW}}, {}),
        Query("questions, the latest", "questions", {}, {"asked_at": -1, "_id": 1}),
        Query("questions that were refused", "questions", {"mode": "refused"}, {"asked_at": -1, "_id": 1}),
        Query("questions on an alert", "questions", {"alert": "a"}, {"asked_at": -1, "_id": 1}),
        Query("questions on a runbook", "questions", {"cited.runbook_id": "a"}, {"asked_at": -1, "_id": 1}),
        Query("feedback on a request", "feedback", {"request_id": {"$in": ["0"]}}, {}),
        Query("inbox, what waits", "inbox", {"state": "pending"}, {"created_at": 1, "_id": 1}),
    ]


class MongoPlans:
    """Explains the queries."""

    def __init__(self, database: mongo.Database) -> None:
        self._database = database

    async def explain(self) -> list[QueryPlan]:
        """The winning plan of each query.

        Raises:
            TransientError: MongoDB is away.
        """
        return [await self._explain(query) for query in queries()]

    async def _explain(self, query: Query) -> QueryPlan:
        find: Document = {"find": query.collection, "filter": query.filter, "limit": 50}
        if query.sort:
            find["sort"] = query.sort
        with mongo.translated():
            answer = await self._database.command({"explain": find, "verbosity": "executionStats"})
        stages = list(_stages(answer.get("queryPlanner", {}).get("winningPlan", {})))
        statistics = answer.get("executionStats", {})
        return QueryPlan(
            query.name,
            query.collection,
            {name: _shown(value) for name, value in query.filter.items()},
            query.sort,
            next((stage["indexName"] for stage in stages if "indexName" in stage), None),
            tuple(stage["stage"] for stage in stages if "stage" in stage),
            statistics.get("totalKeysExamined"),
            statistics.get("totalDocsExamined"),
            statistics.get("nReturned"),
        )


def _stages(plan: Document) -> Iterator[Document]:
    """All stages of a plan, outermost first (MongoDB nests a plan of its newer engine in `queryPlan`)."""
    if "stage" in plan or "indexName" in plan:
        yield plan
    for name in ("queryPlan", "inputStage"):
        if isinstance(plan.get(name), dict):
            yield from _stages(plan[name])
    for inner in plan.get("inputStages", ()):
        yield from _stages(inner)


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shown(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_shown(member) for member in value]
    return value.isoformat() if isinstance(value, datetime) else value
