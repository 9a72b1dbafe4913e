"""Replays of many letters, stored: every gateway sees them, and the leader goes on with them after a restart."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta

from cairn_gateway.dlq.documents import JOB_INDEXES, job_document, job_from
from cairn_gateway.dlq.model import MAX_REPLAYS, Choice, Job, JobProgress, JobState
from cairn_gateway.dlq.store import MongoLetters
from cairn_shared import mongo
from cairn_shared.clock import Clock
from cairn_shared.errors import NotFound
from cairn_shared.mongo import Document

KEEP = timedelta(days=90)
SELECTING = timedelta(seconds=60)
"""A job whose letters are still being marked after so long was left by its gateway."""

MOST_AT_ONCE = 100


class MongoJobs:
    """The collection `dlq_jobs`. Every method raises TransientError when MongoDB is away."""

    def __init__(self, collection: mongo.Collection, letters: MongoLetters, clock: Clock) -> None:
        self._jobs = collection
        self._letters = letters
        self._clock = clock

    async def ensure_indexes(self) -> None:
        await mongo.ensure_indexes(self._jobs, JOB_INDEXES)

    async def start(self, choice: Choice, *, by: str, rate: float, limit: int, force: bool, note: str) -> Job:
        """A job over the open letters of `choice`; those replayed too often are left out unless `force`.

        Nothing is sent before every letter is marked: should this process end meanwhile, the leader goes on with those
        that were.
        """
        ids = await self._letters.fitting(choice, limit, max_replays=None if force else MAX_REPLAYS)
        refused = 0
        if not force:
            everything = await self._letters.fitting(choice, limit, max_replays=None)
            refused = len(set(everything) - set(ids))
        job = Job(uuid.uuid4().hex[:12], by, self._clock.now(), rate, force, len(ids), refused, note=note)
        with mongo.translated():
            await self._jobs.insert_one(job_document(job))
        claimed = await self._letters.claim(ids, job.id) if ids else 0  # fewer where another job was quicker
        ready: Document = {"state": "running", "selected": claimed}
        with mongo.translated():
            await self._jobs.update_one({"_id": job.id, "state": "selecting"}, {"$set": ready})
        return replace(job, state="running", selected=claimed)

    async def get(self, job_id: str) -> Job:
        """One job.

        Raises:
            NotFound: there is no such job.
        """
        with mongo.translated():
            document = await self._jobs.find_one({"_id": job_id})
        if document is None:
            raise NotFound(f"there is no replay {job_id}")
        return job_from(document)

    async def running(self) -> list[Job]:
        """Those that are to be carried on, the oldest first."""
        with mongo.translated():
            cursor = self._jobs.find({"state": "running"}).sort("created_at", 1).limit(MOST_AT_ONCE)
            return [job_from(document) async for document in cursor]

    async def adopt(self) -> None:
        """Carry on as well those whose gateway left while it marked their letters."""
        abandoned = {"state": "selecting", "created_at": {"$lt": self._clock.now() - SELECTING}}
        with mongo.translated():
            await self._jobs.update_many(abandoned, {"$set": {"state": "running"}})

    async def latest(self, limit: int) -> list[Job]:
        """The newest."""
        with mongo.translated():
            cursor = self._jobs.find({}).sort([("created_at", -1), ("_id", 1)]).limit(limit)
            return [job_from(document) async for document in cursor]

    async def is_running(self, job_id: str) -> bool:
        with mongo.translated():
            return await self._jobs.find_one({"_id": job_id, "state": "running"}, {"_id": 1}) is not None

    async def end(self, job_id: str, state: JobState) -> Job:
        """Mark a running job as ended and let go of what waits in it; one that ended before stays as it is."""
        now = self._clock.now()
        fields: Document = {"state": state, "ended_at": now, "expires_at": now + KEEP}
        with mongo.translated():
            wanted = {"_id": job_id, "state": {"$in": ["running", "selecting"]}}
            await self._jobs.update_one(wanted, {"$set": fields})
        if state == "stopped":
            await self._letters.release(job_id)
        return await self.get(job_id)

    async def progress(self, job: Job) -> JobProgress:
        """How far it has come, counted from the letters themselves."""
        counts = await self._letters.of_job(job.id)
        return JobProgress(
            waiting=counts["waiting"],
            on_their_way=counts.get("replaying", 0),
            resolved=counts.get("resolved", 0),
            failed_again=counts.get("open", 0),
            discarded=counts.get("discarded", 0),
        )
