"""Declarations and the state of their syncs, in MongoDB: the gateway declares, the consumer syncs."""

from __future__ import annotations

from collections.abc import Iterable

from cairn_shared import mongo
from cairn_shared.clock import Clock
from cairn_shared.errors import Conflict, NotFound
from cairn_shared.mongo import Database, Document, Index
from cairn_shared.repositories.model import Declaration, Declared, SyncState
from cairn_shared.repositories.reading import TreeFile

REPOSITORIES, TREES = "repositories", "repository_trees"
INDEXES = (Index("by_url", (("removed", 1), ("canonical_url", 1))),)
MAX_SKIPPED = MAX_WARNED = 200
MAX_EVENT_IDS = 2000


class RepositoryStore:
    """Every method raises `Unavailable("mongo")` when MongoDB is away."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._collection = database[REPOSITORIES]
        self._trees = database[TREES]
        self._clock = clock

    async def ensure_indexes(self) -> None:
        """Create the indexes that are missing."""
        await mongo.ensure_indexes(self._collection, INDEXES)

    async def all(self, *, removed: bool | None = False) -> list[Declared]:
        """The declarations in order of their names; removed ones too with None."""
        wanted: Document = {} if removed is None else {"removed": removed}
        with mongo.translated():
            return [_declared(document) async for document in self._collection.find(wanted).sort("_id", 1)]

    async def find(self, name: str) -> Declared | None:
        """The declaration, also a removed one."""
        with mongo.translated():
            document = await self._collection.find_one({"_id": name})
        return None if document is None else _declared(document)

    async def get(self, name: str) -> Declared:
        """The declaration.

        Raises:
            NotFound: there is none, or it was removed.
        """
        found = await self.find(name)
        if found is None or found.removed:
            raise NotFound(f"there is no repository {name}")
        return found

    async def declare(self, declaration: Declaration, *, by: str, origin: str = "api") -> Declared:
        """Declare or change.

        Raises:
            Conflict: it is declared by the file RUNBOOK_REPOS, which would undo the change at the next start.
        """
        before = await self.find(declaration.name)
        if before is not None and not before.removed and before.origin == "file" and origin == "api":
            raise Conflict(f"{declaration.name} is declared in the file of RUNBOOK_REPOS: change it there")
        fields: Document = {
            "declaration": declaration.model_dump(mode="json"),
            "canonical_url": declaration.canonical_url,
            "origin": origin,
            "removed": False,
        }
        if before is not None and all(_raw(before).get(name) == value for name, value in fields.items()):
            return before
        fields |= {"updated_at": self._clock.now(), "updated_by": by}
        await mongo.put(self._collection, declaration.name, fields, {"state": SyncState().model_dump(mode="python")})
        return await self.get(declaration.name)

    async def remove(self, name: str, *, by: str) -> None:
        """Mark it as removed; its runbooks go with the next sync.

        Raises:
            NotFound: there is none.
        """
        change = {"removed": True, "updated_at": self._clock.now(), "updated_by": by}
        with mongo.translated():
            result = await self._collection.update_one({"_id": name, "removed": False}, {"$set": change})
        if result.matched_count == 0:
            raise NotFound(f"there is no repository {name}")

    async def forget(self, name: str) -> None:
        """Delete it without a trace, its runbooks stay."""
        with mongo.translated():
            await self._collection.delete_one({"_id": name})

    async def apply_file(self, declarations: Iterable[Declaration], *, by: str) -> tuple[list[str], list[str]]:
        """Make the declarations of the file be exactly these; the names that changed, and those that went."""
        wanted = {declaration.name: declaration for declaration in declarations}
        known = {one.declaration.name: one for one in await self.all()}
        gone = [name for name, one in known.items() if one.origin == "file" and name not in wanted]
        changed = []
        for name, declaration in wanted.items():
            before = known.get(name)
            await self.declare(declaration, by=by, origin="file")
            if before is None or before.declaration != declaration:
                changed.append(name)
        for name in gone:
            await self.remove(name, by=by)
        return changed, gone

    async def save_state(self, name: str, state: SyncState) -> None:
        """Keep what a sync came to."""
        bounded = state.model_copy(
            update={
                "skipped": state.skipped[:MAX_SKIPPED],
                "warned": state.warned[:MAX_WARNED],
                "event_ids": state.event_ids[:MAX_EVENT_IDS],
            }
        )
        with mongo.translated():
            await self._collection.update_one({"_id": name}, {"$set": {"state": bounded.model_dump(mode="python")}})

    async def find_tree(self, declaration: Declaration, commit: str) -> list[TreeFile] | None:
        """The files that `declaration` selects of the tree of `commit`, if they were kept. A commit never changes."""
        with mongo.translated():
            document = await self._trees.find_one({"_id": declaration.name})
        if document is None or document["commit"] != commit or document["digest"] != declaration.settings_digest():
            return None
        return [TreeFile(path, blob) for path, blob in document["files"]]

    async def keep_tree(self, declaration: Declaration, commit: str, files: Iterable[TreeFile]) -> None:
        """Keep the selected files of the newest tree, so that an unchanged branch costs one request."""
        document = {
            "commit": commit,
            "digest": declaration.settings_digest(),
            "files": [[file.path, file.blob] for file in files],
        }
        with mongo.translated():
            await self._trees.replace_one({"_id": declaration.name}, document, upsert=True)


def _declared(document: Document) -> Declared:
    return Declared.model_validate({**document, "declaration": {**document["declaration"]}})


def _raw(declared: Declared) -> Document:
    return {
        "declaration": declared.declaration.model_dump(mode="json"),
        "canonical_url": declared.declaration.canonical_url,
        "origin": declared.origin,
        "removed": declared.removed,
    }
