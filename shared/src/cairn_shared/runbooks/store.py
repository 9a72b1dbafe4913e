"""Runbooks in MongoDB, the truth. Runbook, revision and outbox entry are written in one transaction (invariant I8).

The gateway writes through this store, and so does the consumer's repository sync. A relay in the gateway takes the
outbox to Kafka.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from cairn_shared import context, mongo
from cairn_shared.clock import Clock
from cairn_shared.crashpoints import crash_at
from cairn_shared.errors import Conflict, NotFound, TooLarge
from cairn_shared.mongo import Database, Document, Index, Session, WriteConflict
from cairn_shared.retry import Backoff
from cairn_shared.runbooks import outbox
from cairn_shared.runbooks.links import targets, without_suffix
from cairn_shared.runbooks.model import Runbook
from cairn_shared.runbooks.records import (
    ALWAYS,
    HEAD_FIELDS,
    Head,
    Precondition,
    Stored,
    Written,
    after,
    from_document,
    to_document,
    to_head,
)

T = TypeVar("T")

RUNBOOKS, REVISIONS = "runbooks", "runbook_revisions"
RUNBOOK_INDEXES = (
    Index("by_service", (("deleted", 1), ("service", 1), ("_id", 1))),
    Index("by_tag", (("deleted", 1), ("tags", 1), ("_id", 1))),
    Index("by_source_path", (("source", 1), ("path", 1))),
)
REVISION_INDEXES = (Index("by_runbook", (("runbook_id", 1), ("revision", -1)), {"unique": True}),)


@dataclass(frozen=True)
class RunbookQuery:
    """Which runbooks to list, in order of their ids, after the id `after`. `text` is looked for in id and title."""

    service: str | None = None
    tag: str | None = None
    source: str | None = None
    text: str | None = None
    after: str | None = None
    limit: int = 50
    deleted: bool | None = False

    def filter(self) -> Document:
        """The MongoDB filter."""
        found: Document = {}
        if self.deleted is not None:
            found["deleted"] = self.deleted
        for name, value in (("service", self.service), ("tags", self.tag), ("source", self.source)):
            if value is not None:
                found[name] = value
        if self.after is not None:
            found["_id"] = {"$gt": self.after}
        if self.text:
            pattern = {"$regex": re.escape(self.text), "$options": "i"}
            found["$or"] = [{"title": pattern}, {"_id": pattern}]
        return found


@dataclass(frozen=True)
class WritePolicy:
    """How long writers of one runbook try against one another, and the largest event that Kafka takes."""

    attempts: int = 100
    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.004, limit=0.1))
    max_event_bytes: int = 4 * 1024 * 1024 - 64 * 1024


class RunbookStore:
    """Reads and writes runbooks. `on_write` is called after each committed write, to wake a relay in this process.

    Every method raises `Unavailable("mongo")` when MongoDB is away.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        policy: WritePolicy = WritePolicy(),
        on_write: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._policy = policy
        self._on_write = on_write
        self._on_revision: Callable[[str, int], None] = lambda _id, _revision: None
        self._runbooks = database[RUNBOOKS]
        self._revisions = database[REVISIONS]
        self._outbox = database[outbox.OUTBOX]

    def tell(self, listener: Callable[[str, int], None]) -> None:
        """Have `listener` called with id and revision of each write of this store, once it is committed."""
        self._on_revision = listener

    async def ensure_indexes(self) -> None:
        """Create the compound indexes that are missing."""
        await mongo.ensure_indexes(self._runbooks, RUNBOOK_INDEXES)
        await mongo.ensure_indexes(self._revisions, REVISION_INDEXES)
        await mongo.ensure_indexes(self._outbox, outbox.INDEXES)

    async def get(self, runbook_id: str) -> Stored:
        """The present revision.

        Raises:
            NotFound: there is none, or it was deleted.
        """
        stored = await self.find(runbook_id)
        if stored is None or stored.deleted:
            raise NotFound(f"there is no runbook {runbook_id}")
        return stored

    async def find(self, runbook_id: str, session: Session | None = None) -> Stored | None:
        """The present revision or the tombstone, if there ever was one."""
        with mongo.translated():
            document = await self._runbooks.find_one({"_id": runbook_id}, session=session)
        return None if document is None else from_document(document)

    async def page(self, query: RunbookQuery) -> list[Head]:
        """One page, in order of ids."""
        with mongo.translated():
            cursor = self._runbooks.find(query.filter(), dict.fromkeys(HEAD_FIELDS, 1)).sort("_id", 1)
            return [to_head(document) async for document in cursor.limit(query.limit)]

    async def count(self) -> int:
        """How many runbooks there are, tombstones not counted."""
        with mongo.translated():
            return await self._runbooks.count_documents({"deleted": False})

    async def heads(self, source: str | None = None, page: int = 1000) -> AsyncIterator[Head]:
        """Every runbook and tombstone (of one `source`), page by page: a runbook is seen once, at some moment."""
        query = RunbookQuery(source=source, deleted=None, limit=page)
        while found := await self.page(query):
            for head in found:
                yield head
            query = replace(query, after=found[-1].id)

    async def find_heads(self, runbook_ids: Iterable[str]) -> dict[str, Head]:
        """Those of `runbook_ids` that there are or were, by id."""
        with mongo.translated():
            cursor = self._runbooks.find({"_id": {"$in": list(runbook_ids)}}, dict.fromkeys(HEAD_FIELDS, 1))
            return {document["_id"]: to_head(document) async for document in cursor}

    async def linking_to(self, stored: Stored, limit: int = 50) -> list[Head]:
        """Runbooks of the same source with a relative link to this one, in order of their ids."""
        path, source = stored.runbook.path, stored.runbook.source
        if path is None:
            return []
        name = without_suffix(posixpath.basename(path))
        wanted: Document = {
            "deleted": False,
            "source": source,
            "_id": {"$ne": stored.runbook.id},
            "steps.body": {"$regex": re.escape(name).replace("\\ ", "(?: |%20)")},
        }
        with mongo.translated():
            cursor = self._runbooks.find(wanted).sort("_id", 1)
            found = [document async for document in cursor]
        target = without_suffix(path)
        return [
            to_head(document)
            for document in found
            if any(target in targets(step["body"], document["path"] or "") for step in document["steps"])
        ][:limit]

    async def revisions(self, runbook_id: str, before: int | None = None, limit: int = 50) -> list[Stored]:
        """Past and present revisions, newest first, those below `before`."""
        wanted: Document = {"runbook_id": runbook_id}
        if before is not None:
            wanted["revision"] = {"$lt": before}
        with mongo.translated():
            cursor = self._revisions.find(wanted).sort("revision", -1).limit(limit)
            return [from_document(document) async for document in cursor]

    async def put(
        self,
        runbook: Runbook,
        *,
        markdown: str | None,
        by: str,
        precondition: Precondition = ALWAYS,
        keep_provenance: bool = False,
    ) -> Written:
        """Create or change a runbook. Equal content changes nothing: no revision, no event.

        With `keep_provenance` a live runbook keeps its source, path, commit and blob: it was imported and is
        now edited by hand.

        Raises:
            PreconditionFailed: `precondition` does not hold.
            TooLarge: its event is larger than Kafka takes.
            Conflict: other writers came first, again and again.
        """

        def decide(current: Stored | None) -> Written | Stored:
            live = current if current is not None and not current.deleted else None
            precondition.check(live.revision if live else None)
            new = _with_provenance(runbook, live.runbook) if live and keep_provenance else runbook
            if live and live.same_content(new, markdown):
                return Written(live.runbook, live.revision, False, False, live.event_id)
            return self._next(current, new, markdown=markdown, by=by)

        unchanged = decide(await self.find(runbook.id))
        if isinstance(unchanged, Written):
            return unchanged
        return await self._again(lambda: self._change(runbook.id, decide))

    async def delete(self, runbook_id: str, *, by: str, precondition: Precondition = ALWAYS) -> Written:
        """Leave a tombstone at the next revision.

        Raises:
            NotFound: there is no such runbook.
            PreconditionFailed: `precondition` does not hold.
            Conflict: other writers came first, again and again.
        """

        def decide(current: Stored | None) -> Stored:
            if current is None or current.deleted:
                raise NotFound(f"there is no runbook {runbook_id}")
            precondition.check(current.revision)
            return self._tombstone(current, current.runbook, by=by)

        return await self._again(lambda: self._change(runbook_id, decide))

    async def advance(self, runbook_id: str, *, beyond: int, by: str) -> Written:
        """Write the same state again as a revision above `beyond`, because the index holds something else there.

        Its event asks for everything to be written anew. A runbook that MongoDB does not know becomes a tombstone.
        """

        def decide(current: Stored | None) -> Stored:
            if current is None:
                unknown = Runbook(id=runbook_id, title=runbook_id)
                return self._tombstone(None, unknown, by=by, beyond=beyond)
            if current.deleted:
                return self._tombstone(current, current.runbook, by=by, beyond=beyond)
            return self._next(current, current.runbook, markdown=current.markdown, by=by, beyond=beyond)

        return await self._again(lambda: self._change(runbook_id, decide, rewrite=True))

    async def publish_again(self, runbook_id: str) -> Written:
        """Put the event of the present revision into the outbox once more.

        Raises:
            NotFound: there never was such a runbook.
        """
        stored = await self.find(runbook_id)
        if stored is None:
            raise NotFound(f"there is no runbook {runbook_id}")
        now = self._clock.now()
        document = self._outbox_entry(stored, now=now)
        fields = {name: value for name, value in document.items() if name != "_id"}
        with mongo.translated():
            await self._outbox.update_one(
                {"_id": stored.event_id}, {"$set": fields, "$unset": {"expires_at": 1}}, upsert=True
            )
        self._on_write()
        return Written(stored.runbook, stored.revision, True, False, stored.event_id)

    async def _change(
        self, runbook_id: str, decide: Callable[[Stored | None], Written | Stored], *, rewrite: bool = False
    ) -> Written:
        async with mongo.transaction(self._database) as session:
            current = await self.find(runbook_id, session)
            new = decide(current)
            if isinstance(new, Written):
                return new
            await self._write(session, current, new, rewrite=rewrite)
        crash_at("after_outbox")
        self._on_write()
        self._on_revision(new.runbook.id, new.revision)
        created = not new.deleted and (current is None or current.deleted)
        return Written(new.runbook, new.revision, True, created, new.event_id)

    async def _write(self, session: Session, current: Stored | None, new: Stored, *, rewrite: bool) -> None:
        document = to_document(new)
        if current is None:
            await self._runbooks.insert_one(document, session=session)
        else:
            guard = {"_id": new.runbook.id, "revision": current.revision}
            result = await self._runbooks.replace_one(guard, document, session=session)
            if result.matched_count != 1:
                raise WriteConflict("mongo: another write came first")
        revision = {**document, "_id": f"{new.runbook.id}@{new.revision}", "runbook_id": new.runbook.id}
        await self._revisions.insert_one(revision, session=session)
        entry = self._outbox_entry(new, now=new.updated_at, rewrite=rewrite)
        await self._outbox.insert_one(entry, session=session)

    def _outbox_entry(self, stored: Stored, *, now: datetime, rewrite: bool = False) -> Document:
        document = outbox.entry(stored.event(now, rewrite=rewrite), now, context.traceparent.get())
        if len(document["value"]) > self._policy.max_event_bytes:
            raise TooLarge(
                f"the runbook is too large: {len(document['value'])} bytes as an event, "
                f"at most {self._policy.max_event_bytes} are allowed; divide it",
                field="steps",
            )
        return document

    def _next(
        self, current: Stored | None, runbook: Runbook, *, markdown: str | None, by: str, beyond: int = 0
    ) -> Stored:
        now = after(self._clock.now(), current.updated_at if current else None)
        return Stored(
            runbook,
            max(current.revision if current else 0, beyond) + 1,
            False,
            runbook.content_sha(),
            markdown,
            current.created_at if current and not current.deleted else now,
            now,
            by,
        )

    def _tombstone(self, current: Stored | None, runbook: Runbook, *, by: str, beyond: int = 0) -> Stored:
        bare = runbook.model_copy(update={"steps": [], "alerts": [], "links": [], "tags": []})
        return replace(self._next(current, bare, markdown=None, by=by, beyond=beyond), deleted=True, content_sha="")

    async def _again(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Run a transaction until no other writer is in its way."""
        for number in range(1, self._policy.attempts + 1):
            try:
                return await attempt()
            except (WriteConflict, Conflict):  # Conflict: two created it at once
                await self._clock.sleep(self._policy.backoff.delay(number))
        raise Conflict("too many writers of this runbook at once; try again")


def _with_provenance(runbook: Runbook, known: Runbook) -> Runbook:
    kept = {name: getattr(known, name) for name in ("source", "path", "commit", "blob")}
    return runbook.model_copy(update=kept)
