"""What operators do with dead letters: look, try, replay, mend, discard, carry elsewhere. Every act is audited."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from cairn_gateway.accept import Accepter
from cairn_gateway.dlq import changes
from cairn_gateway.dlq.jobs import MongoJobs
from cairn_gateway.dlq.model import Choice, Job, JobProgress, Letter
from cairn_gateway.dlq.store import MongoLetters
from cairn_gateway.model import Principal
from cairn_gateway.ports import Audit, Versions
from cairn_shared.api.consumer import DryRunAnswer, DryRunQuery, DryRunRecord, DryRunResult, Halt, ReleaseBody
from cairn_shared.api.index import PartVersion
from cairn_shared.clock import Clock
from cairn_shared.errors import CairnError, Conflict, InvalidInput, NotFound, PermanentError
from cairn_shared.events import TOPICS, arrival, decode, document_id, event_id

DRY_RUN_RECORDS = 50
DRY_RUN_BYTES = 8 * 1024 * 1024
"""Most of one request to a consumer, unless a single record is larger."""


class Consumers(Protocol):
    """The consumers. Every method raises `Unavailable("ingest-consumer")`."""

    async def dry_run(self, query: DryRunQuery) -> DryRunAnswer: ...
    async def halts(self) -> list[Halt]: ...
    async def release(self, body: ReleaseBody) -> bool: ...


@dataclass(frozen=True)
class Superseded:
    """What the index has of the document that a letter would write; None: nothing, or nobody can say."""

    indexed_version: int | None = None
    newer: bool | None = None


@dataclass(frozen=True)
class Tried:
    """Results of a dry run, and the code that gave them; None where there was nothing to try."""

    results: tuple[DryRunResult, ...] = ()
    app_version: str | None = None
    pipeline: str | None = None
    git_sha: str | None = None


class Workbench:
    """The use cases of `/dlq`."""

    def __init__(
        self,
        letters: MongoLetters,
        jobs: MongoJobs,
        *,
        accepter: Accepter,
        consumers: Consumers,
        index: Versions,
        audit: Audit,
        clock: Clock,
    ) -> None:
        self.letters = letters
        self.jobs = jobs
        self._accepter = accepter
        self._consumers = consumers
        self._index = index
        self._audit = audit
        self._clock = clock

    async def superseded(self, letters: Sequence[Letter]) -> dict[uuid.UUID, Superseded]:
        """Whether the index has a newer version of what each letter would write, by letter."""
        documents = {
            letter.id: document_id(letter.source, letter.subject)
            for letter in letters
            if letter.source and letter.subject and letter.version is not None
        }
        wanted = set(documents.values())
        try:
            parts = await self._index.versions(wanted) if wanted else []
        except CairnError:  # the letters are shown all the same
            return {}
        known = {(part.document_id, part.part): part for part in parts}
        return {
            letter.id: _compared(letter, known.get((documents[letter.id], letter.part)))
            for letter in letters
            if letter.id in documents
        }

    async def dry_run(self, choice: Choice, limit: int) -> Tried:
        """What the consumers of today would make of open letters, the longest dead first; nothing is changed.

        Raises:
            Unavailable: no consumer answers.
        """
        tried = Tried()
        batch: list[DryRunRecord] = []
        size = 0
        open_ones = replace(choice, state=choice.state or "open")
        async for letter in self.letters.each(open_ones, limit):
            if not letter.value_kept:
                reason = f"its value of {letter.size} bytes was not kept"
                lost = DryRunResult(id=letter.id, ok=False, stage="too-large", reason=reason)
                tried = replace(tried, results=(*tried.results, lost))
                continue
            if batch and (len(batch) == DRY_RUN_RECORDS or size + letter.size > DRY_RUN_BYTES):
                tried = await self._try(batch, tried)
                batch, size = [], 0
            batch.append(record_of(letter))
            size += letter.size
        return await self._try(batch, tried) if batch else tried

    async def dry_run_text(self, letter_id: uuid.UUID, value: bytes) -> Tried:
        """The same for a letter with another value, as it would be edited."""
        letter = await self.letters.get(letter_id)
        return await self._try([record_of(replace(letter, value=value))], Tried())

    async def replay(self, choice: Choice, who: Principal, *, rate: float, limit: int, force: bool, note: str) -> Job:
        """Begin a replay of open letters.

        Raises:
            Conflict: one letter is chosen by its id and cannot be replayed; it is said why.
        """
        if choice.ids is not None and len(choice.ids) == 1:
            changes.why_not(await self.letters.get(choice.ids[0]), force=force)
        job = await self.jobs.start(choice, by=who.user_id, rate=rate, limit=limit, force=force, note=note)
        forced = ", forced" if force else ""
        detail = f"{job.selected} letters at {rate:g}/s{forced}, {job.refused} refused; {shown(choice)} {note}".strip()
        await self._audit.note(who, "dlq.replay", job.id, detail)
        return job

    async def stop(self, job_id: str, who: Principal) -> Job:
        """End a replay; what it has not sent stays open.

        Raises:
            NotFound: there is no such replay.
        """
        job = await self.jobs.get(job_id)
        if job.state in ("running", "selecting"):
            job = await self.jobs.end(job_id, "stopped")
            await self._audit.note(who, "dlq.stop", job_id)
        return job

    async def progress(self, job_id: str) -> tuple[Job, JobProgress]:
        """A replay and how far it is. Raises NotFound."""
        job = await self.jobs.get(job_id)
        return job, await self.jobs.progress(job)

    async def edit(
        self, letter_id: uuid.UUID, value: bytes, who: Principal, *, reason: str
    ) -> tuple[Letter, uuid.UUID]:
        """Send a mended event in the place of a letter: a new event with an id of its own, linked to the old.

        Raises:
            InvalidInput: the value is no event that could be processed. Conflict: the letter is not open.
            Unavailable: neither Kafka nor MongoDB took the event.
        """
        letter = await self.letters.get(letter_id)
        if letter.state != "open":
            raise Conflict(f"the dead letter is {letter.state}, not open")
        try:
            event = decode(value)
            event.body()
        except PermanentError as exc:
            raise InvalidInput(f"{exc.stage}: {exc.detail}", field="value") from exc
        if event.topic() not in TOPICS:
            raise InvalidInput("type: goes to no topic of Cairn", field="value")
        mended = event.model_copy(
            update={
                "event_id": event_id(event.source, f"edit|{letter.id}|{hashlib.sha256(value).hexdigest()}"),
                "accepted_at": self._clock.now(),
                "arrived": arrival(self._clock.now()),
            }
        )
        now = self._clock.now()
        marked = changes.edited(letter, mended.event_id, by=who.user_id, at=now, reason=reason)
        # The same edit tried again has the same event id, so that accepting first can do no harm twice.
        await self._accepter.accept([mended])
        saved = await self.letters.save(marked)
        if saved is None:
            raise Conflict("somebody else changed the dead letter meanwhile: look at it again")
        await self._audit.note(who, "dlq.edit", str(letter_id), f"sent as event {mended.event_id}; {reason}")
        return saved, mended.event_id

    async def discard(self, choice: Choice, who: Principal, *, reason: str, limit: int) -> int:
        """Close open letters without a replay; how many. They stay to be seen, and can be opened again."""
        ids = [letter.id async for letter in self._chosen(choice, limit)]
        count = await self.letters.discard(ids, by=who.user_id, reason=reason)
        target = str(choice.ids[0]) if choice.ids and len(choice.ids) == 1 else shown(choice)
        await self._audit.note(who, "dlq.discard", target, f"{count} letters: {reason}")
        return count

    async def reopen(self, letter_id: uuid.UUID, who: Principal, *, reason: str) -> Letter:
        """Open a letter that was discarded, or whose replay was never heard of again.

        Raises:
            NotFound, Conflict: it is neither, or was changed meanwhile.
        """
        letter = await self.letters.get(letter_id)
        after = changes.reopened(letter, by=who.user_id, at=self._clock.now(), reason=reason)
        saved = await self.letters.save(after)
        if saved is None:
            raise Conflict("somebody else changed the dead letter meanwhile: look at it again")
        await self._audit.note(who, "dlq.reopen", str(letter_id), reason)
        return saved

    async def bring_in(self, letters: Sequence[Letter], who: Principal) -> tuple[int, int]:
        """Add letters from an export; how many were new, and how many were here already."""
        known = await self.letters.find([letter.id for letter in letters])
        fresh = {letter.id: letter for letter in letters if letter.id not in known}
        await self.letters.add(list(fresh.values()))
        await self._audit.note(who, "dlq.import", "dlq", f"{len(fresh)} new, {len(letters) - len(fresh)} known")
        return len(fresh), len(letters) - len(fresh)

    async def halts(self) -> list[Halt]:
        """Partitions on which consumption stopped. Raises Unavailable."""
        return await self._consumers.halts()

    async def release(self, topic: str, partition: int, who: Principal) -> None:
        """Let consumption go on.

        Raises:
            NotFound: that partition is not halted. Unavailable: no consumer answers.
        """
        found = await self._consumers.release(ReleaseBody(topic=topic, partition=partition, by=who.user_id))
        if not found:
            raise NotFound(f"{topic}[{partition}] is not halted")
        await self._audit.note(who, "dlq.release", f"{topic}[{partition}]")

    async def _try(self, batch: Sequence[DryRunRecord], before: Tried) -> Tried:
        answer = await self._consumers.dry_run(DryRunQuery(records=list(batch)))
        results = (*before.results, *answer.results)
        return Tried(results, answer.app_version, answer.pipeline, answer.git_sha)

    async def _chosen(self, choice: Choice, limit: int) -> AsyncIterator[Letter]:
        after: str | None = None
        left = limit
        while left > 0:
            page, after = await self.letters.page(replace(choice, state="open"), after, min(left, 500))
            for letter in page:
                yield letter
            left -= len(page)
            if after is None:
                return


def record_of(letter: Letter) -> DryRunRecord:
    """A letter as a consumer is to try it."""
    return DryRunRecord(id=letter.id, key=letter.key, value=letter.value, headers=list(letter.headers))


def shown(choice: Choice) -> str:
    """A choice in words, for the audit."""
    given = {name: value for name, value in vars(choice).items() if value is not None}
    if (ids := given.pop("ids", None)) is not None:
        given["letters"] = len(ids)
    return ", ".join(f"{name}={value}" for name, value in given.items()) or "all"


def _compared(letter: Letter, part: PartVersion | None) -> Superseded:
    if part is None:
        return Superseded(None, newer=False)
    return Superseded(part.version, newer=letter.version is not None and part.version > letter.version)


def only(ids: Collection[uuid.UUID]) -> Choice:
    """Just these."""
    return Choice(ids=tuple(ids))
