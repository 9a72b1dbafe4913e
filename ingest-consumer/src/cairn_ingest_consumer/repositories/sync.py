"""One sync: read the tree at the end of the branch, write what differs, look whether the branch moved meanwhile."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from cairn_ingest_consumer.repositories.asking import AskPolicy, HostFailed, ask
from cairn_ingest_consumer.repositories.plan import Plan, plan, writer
from cairn_shared.clock import Clock
from cairn_shared.errors import InvalidInput, NotFound
from cairn_shared.repositories.hosts import Access
from cairn_shared.repositories.model import Declaration, Skipped, Warned, page_url
from cairn_shared.repositories.reading import MAX_FILES, Head, RepositoryReader, TreeFile, selected
from cairn_shared.repositories.store import RepositoryStore
from cairn_shared.runbooks.markdown import decode_markdown, load_runbook
from cairn_shared.runbooks.model import MAX_MARKDOWN_BYTES
from cairn_shared.runbooks.store import RunbookStore

T = TypeVar("T")
OpenReader = Callable[[Access], AbstractAsyncContextManager[RepositoryReader]]

LOADER = "2"
"""Raise it when the loader reads the same file differently: every file is then written again."""


@dataclass(frozen=True)
class SyncPolicy:
    """How long one sync may take before it leaves the rest to the next, in seconds, and how it asks the host.

    The engine ends a process that makes no progress for minutes, so a large first sync is done in pieces.
    """

    budget: float = 120.0
    concurrency: int = 6
    rounds: int = 5
    asking: AskPolicy = field(default_factory=AskPolicy)


@dataclass(frozen=True)
class Job:
    """One sync: what is read, how, and what is known from the last one."""

    declaration: Declaration
    access: Access
    known: Head | None = None
    unreadable: Mapping[str, Skipped] = field(default_factory=dict)
    warned: Sequence[Warned] = ()
    again_from: str | None = None


@dataclass
class Outcome:
    """What a sync did. `left`: the ids whose files were not reached within the budget."""

    commit: str
    etag: str | None
    files: int = 0
    written: int = 0
    deleted: int = 0
    left: set[str] = field(default_factory=set)
    skipped: dict[str, Skipped] = field(default_factory=dict)
    warned: dict[str, Warned] = field(default_factory=dict)
    event_ids: list[uuid.UUID] = field(default_factory=list)


class RepositorySync:
    """Makes the runbooks of a repository be its tree."""

    def __init__(
        self,
        runbooks: RunbookStore,
        repositories: RepositoryStore,
        open_reader: OpenReader,
        clock: Clock,
        policy: SyncPolicy = SyncPolicy(),
    ) -> None:
        self._runbooks = runbooks
        self._repositories = repositories
        self._open_reader = open_reader
        self._clock = clock
        self._policy = policy

    async def sync(self, job: Job) -> Outcome:
        """Sync until the branch stands still, or the budget is used up.

        A sync that was overtaken by a later one ends by looking at the branch again, so the last to write has seen
        the newest tree, or its mark is delivered again.

        Raises:
            HostFailed: the host did not tell what is needed.
            TransientError: MongoDB is away.
        """
        branch = job.declaration.branch
        deadline = self._clock.monotonic() + self._policy.budget
        async with self._open_reader(job.access) as reader:
            head = await self._ask(lambda: reader.head(branch, job.known))
            outcome = Outcome(head.commit, head.etag, warned={one.path: one for one in job.warned})
            for _ in range(self._policy.rounds):
                outcome.commit, outcome.etag = head.commit, head.etag
                await self._round(job, reader, head, outcome, deadline)
                if outcome.left:
                    break
                following = await self._ask(lambda: reader.head(branch, head))  # noqa: B023 - awaited here
                if following.commit == head.commit:
                    break
                head, job = following, replace(job, again_from=None)
            return outcome

    async def remove(self, declaration: Declaration) -> Outcome:
        """Delete every runbook of a repository that is declared no more."""
        outcome = Outcome("", None)
        await self._delete(
            [head.id async for head in self._runbooks.heads(declaration.source) if not head.deleted],
            declaration,
            outcome,
        )
        return outcome

    async def _round(self, job: Job, reader: RepositoryReader, head: Head, outcome: Outcome, deadline: float) -> None:
        tree, fetched = await self._tree(job.declaration, reader, head)
        found = await self._plan(job, tree)
        if found.write and not fetched:
            await self._ask(lambda: reader.files(head.commit))  # readers read files of the tree that they gave
        outcome.files = len(tree)
        outcome.left.clear()
        blobs = {file.path: file.blob for file in tree}
        outcome.warned = {path: one for path, one in outcome.warned.items() if blobs.get(path) == one.blob}
        outcome.skipped = {one.path: one for one in found.skipped}
        limit = asyncio.Semaphore(self._policy.concurrency)

        async def one(identity: str, file: TreeFile) -> None:
            async with limit:
                if self._clock.monotonic() > deadline:
                    outcome.left.add(identity)
                    return
                await self._write(job, reader, identity, file, outcome)

        await _all(one(identity, file) for identity, file in sorted(found.write.items()))
        if not outcome.left:
            await self._delete(found.delete, job.declaration, outcome)

    async def _tree(
        self, declaration: Declaration, reader: RepositoryReader, head: Head
    ) -> tuple[list[TreeFile], bool]:
        """The files of the tree, and whether the reader was asked for them."""
        kept = await self._repositories.find_tree(declaration, head.commit)
        if kept is not None:
            return kept, False
        tree = selected(await self._ask(lambda: reader.files(head.commit)), declaration)
        if len(tree) > MAX_FILES:
            raise HostFailed(InvalidInput(f"{len(tree)} runbook files; at most {MAX_FILES} are taken", field="url"))
        await self._repositories.keep_tree(declaration, head.commit, tree)
        return tree, True

    async def _plan(self, job: Job, tree: Sequence[TreeFile]) -> Plan:
        declaration, provider = job.declaration, job.access.provider
        heads = [head async for head in self._runbooks.heads(declaration.source)]
        compare = partial(
            plan, declaration, provider, tree, heads, unreadable=job.unreadable, again_from=job.again_from
        )
        first = compare()
        own = {head.id for head in heads}
        others = await self._runbooks.find_heads(identity for identity in first.write if identity not in own)
        taken = {identity: head.source for identity, head in others.items() if not head.deleted}
        return compare(taken=taken) if taken else first

    async def _write(self, job: Job, reader: RepositoryReader, identity: str, file: TreeFile, outcome: Outcome) -> None:
        declaration = job.declaration
        warnings: list[str] = []
        try:
            data = await self._ask(lambda: reader.read(file, MAX_MARKDOWN_BYTES))
            text = decode_markdown(data)
            runbook = await asyncio.to_thread(
                load_runbook,
                text,
                runbook_id=identity,
                source=declaration.source,
                path=file.path,
                commit=outcome.commit,
                blob=file.blob,
                url=page_url(declaration, job.access.provider, file.path),
                warn=warnings.append,
            )
            written = await self._runbooks.put(runbook, markdown=text, by=writer(declaration.name))
        except HostFailed as exc:
            if not isinstance(exc.error, InvalidInput):
                raise
            await self._skip(declaration, identity, file, exc.error.detail, outcome)
        except InvalidInput as exc:
            await self._skip(declaration, identity, file, exc.detail, outcome)
        else:
            if warnings:
                outcome.warned[file.path] = Warned(path=file.path, blob=file.blob, warnings=warnings)
            if written.changed:
                outcome.written += 1
                outcome.event_ids.append(written.event_id)

    async def _skip(
        self, declaration: Declaration, identity: str, file: TreeFile, reason: str, outcome: Outcome
    ) -> None:
        """A file that is no runbook (any more): what was read from an earlier one is not true any more."""
        outcome.skipped[file.path] = Skipped(path=file.path, reason=reason, blob=file.blob)
        await self._delete([identity], declaration, outcome)

    async def _delete(self, identities: Iterable[str], declaration: Declaration, outcome: Outcome) -> None:
        for identity in identities:
            try:
                written = await self._runbooks.delete(identity, by=writer(declaration.name))
            except NotFound:
                continue
            outcome.deleted += 1
            outcome.event_ids.append(written.event_id)

    async def _ask(self, question: Callable[[], Awaitable[T]]) -> T:
        return await ask(question, self._clock, self._policy.asking)


async def _all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all of it; the first failure ends the rest and comes out as itself, MongoDB's before the host's."""
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except BaseExceptionGroup as exc:
        raise min(exc.exceptions, key=lambda error: isinstance(error, HostFailed)) from exc
