"""Replaying: letters go back to the topic they came from, with their own key, value and headers, at a job's pace.

A letter is marked as on its way before it is sent. What was marked and not sent when a process ended is sent by the
next one (`Resolver`), with the same replay id: a repetition that the consumer's version guard makes harmless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from cairn_gateway.dlq import changes
from cairn_gateway.dlq.jobs import MongoJobs
from cairn_gateway.dlq.model import Job, Letter
from cairn_gateway.dlq.store import MongoLetters
from cairn_gateway.metrics import Metrics
from cairn_gateway.ports import RawPublisher
from cairn_shared.clock import Clock
from cairn_shared.errors import CairnError, Conflict, TransientError
from cairn_shared.kafka.dead_letters import PREFIX, REPLAY_PREFIX
from cairn_shared.kafka.records import Headers
from cairn_shared.logging import get_logger

log = get_logger(__name__)


@dataclass(frozen=True)
class ReplayPolicy:
    """Seconds: a look for jobs every `look`, a step of a job every `step`, a new try after `rest` on failure.

    Every `adopt` there is a look for jobs whose gateway ended while it began them.
    """

    look: float = 0.5
    adopt: float = 30.0
    step: float = 0.2
    rest: float = 2.0
    batch: int = 200


class Sender:
    """Takes one letter to its topic."""

    def __init__(self, publisher: RawPublisher, letters: MongoLetters, clock: Clock, metrics: Metrics) -> None:
        self._publisher = publisher
        self._letters = letters
        self._clock = clock
        self._metrics = metrics

    async def send(self, letter: Letter) -> None:
        """Publish a letter that is marked as replaying, and note that it was.

        Raises:
            TransientError: Kafka or MongoDB is away; it is sent again later.
        """
        await self._publisher.publish(letter.topic, letter.key, letter.value, headers_of(letter))
        # A letter that failed again or was discarded meanwhile has another revision: then there is nothing to note.
        await self._letters.save(changes.published(letter, self._clock.now()))
        self._metrics.replays.labels("sent").inc()


def headers_of(letter: Letter) -> Headers:
    """The record's own headers, where it lay first, how it failed first, and which replay this is."""
    assert letter.replay is not None
    failure = letter.failure
    added = {
        PREFIX + "original.topic": letter.topic,
        PREFIX + "original.partition": str(letter.partition),
        PREFIX + "original.offset": str(letter.offset),
        PREFIX + "original.timestamp": "" if letter.timestamp_ms is None else str(letter.timestamp_ms),
        PREFIX + "first-failed-at": failure.first_failed_at.isoformat(),
        PREFIX + "attempts": str(failure.attempts),
        REPLAY_PREFIX + "id": str(letter.replay.id),
        REPLAY_PREFIX + "letter": str(letter.id),
        REPLAY_PREFIX + "by": letter.replay.by,
        REPLAY_PREFIX + "count": str(letter.replay_count),
    }
    return (*letter.headers, *((name, value.encode()) for name, value in added.items()))


class Replayer:
    """Carries stored jobs on; run by the leader."""

    def __init__(
        self,
        jobs: MongoJobs,
        letters: MongoLetters,
        sender: Sender,
        clock: Clock,
        policy: ReplayPolicy = ReplayPolicy(),
    ) -> None:
        self._jobs = jobs
        self._letters = letters
        self._sender = sender
        self._clock = clock
        self._policy = policy

    async def run(self) -> None:
        """Work on every running job, each at its own pace, until cancelled."""
        under_way: dict[str, asyncio.Task[None]] = {}
        adopted = float("-inf")
        async with asyncio.TaskGroup() as group:
            while True:
                under_way = {job_id: task for job_id, task in under_way.items() if not task.done()}
                try:
                    if self._clock.monotonic() - adopted > self._policy.adopt:
                        await self._jobs.adopt()
                        adopted = self._clock.monotonic()
                    for job in await self._jobs.running():
                        if job.id not in under_way:
                            under_way[job.id] = group.create_task(self._carry_on(job), name=f"replay {job.id}")
                except TransientError as exc:
                    log.warning("replays wait", reason=exc.detail)
                await self._clock.sleep(self._policy.look)

    async def _carry_on(self, job: Job) -> None:
        """Send what waits in `job`, so many a second; a failure ends this run, and the next look begins another."""
        started, sent = self._clock.monotonic(), 0
        try:
            while await self._jobs.is_running(job.id):
                due = int((self._clock.monotonic() - started + self._policy.step) * job.rate) - sent
                if due < 1:
                    await self._clock.sleep(min(self._policy.step, 1 / job.rate))
                    continue
                batch = await self._letters.waiting(job.id, min(due, self._policy.batch))
                if not batch:
                    await self._jobs.end(job.id, "done")
                    log.info("replay done", job=job.id, sent=sent)
                    return
                sent += len(batch)
                await self._send(job, batch)
        except TransientError as exc:
            log.warning("a replay waits", job=job.id, reason=exc.detail)
            await self._clock.sleep(self._policy.rest)

    async def _send(self, job: Job, batch: Sequence[Letter]) -> None:
        results = await asyncio.gather(*(self._one(job, letter) for letter in batch), return_exceptions=True)
        for failure in results:
            if isinstance(failure, BaseException):
                raise failure

    async def _one(self, job: Job, letter: Letter) -> None:
        try:
            marked = changes.sent(letter, by=job.by, at=self._clock.now(), job=job.id, force=job.force)
        except Conflict as exc:
            log.info("left out of a replay", job=job.id, letter=str(letter.id), reason=exc.detail)
            await self._letters.release(job.id, [letter.id])
            return
        saved = await self._letters.save(marked)
        if saved is None:
            return  # changed meanwhile: the next batch has it as it is now, if it still waits
        try:
            await self._sender.send(saved)
        except TransientError:
            raise
        except CairnError as exc:  # Kafka can never take it
            log.error("a letter cannot be replayed", letter=str(letter.id), reason=exc.detail)  # noqa: TRY400
            why = f"not sent: {exc.detail}"
            await self._letters.save(changes.reopened(saved, by=job.by, at=self._clock.now(), reason=why))
