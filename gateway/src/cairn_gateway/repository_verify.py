"""Comparing a repository's tree with its runbooks: git, MongoDB and the index must tell the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cairn_gateway.reconcile import Reconciler
from cairn_shared.errors import TransientError
from cairn_shared.repositories.hosts import Hosts
from cairn_shared.repositories.model import Declared, runbook_id
from cairn_shared.repositories.readers import open_reader
from cairn_shared.repositories.reading import TreeFile, selected, unsafe_path
from cairn_shared.repositories.store import RepositoryStore
from cairn_shared.runbooks.records import Head
from cairn_shared.runbooks.store import RunbookStore


@dataclass(frozen=True)
class TreeDifference:
    """One path that is not as git has it.

    missing  in the tree, no runbook
    stale    the runbook is of another blob, or was edited by hand
    extra    a runbook whose path is not in the tree
    """

    kind: str
    path: str
    runbook_id: str
    blob: str | None
    stored_blob: str | None


@dataclass(frozen=True)
class RepositoryComparison:
    """`index`: how the index differs from MongoDB, (kind, runbook id); `pending` changed too recently to be judged."""

    commit: str
    files: int
    tree: tuple[TreeDifference, ...]
    index: tuple[tuple[str, str], ...]
    pending: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing differs."""
        return not self.tree and not self.index


def compare_tree(declared: Declared, files: Iterable[TreeFile], heads: Iterable[Head]) -> list[TreeDifference]:
    """How the runbooks differ from the files. A file that the sync found to be no runbook is no difference."""
    name = declared.declaration.name
    live = {head.id: head for head in heads if not head.deleted}
    unreadable = {one.path: one.blob for one in declared.state.skipped}
    found: list[TreeDifference] = []
    wanted: set[str] = set()
    for file in files:
        if unsafe_path(file.path):
            continue  # the sync takes none of these
        identity = runbook_id(name, file.path)
        wanted.add(identity)
        head = live.get(identity)
        if head is None:
            if file.path not in unreadable or unreadable[file.path] not in {None, file.blob}:
                found.append(TreeDifference("missing", file.path, identity, file.blob, None))
        elif head.blob != file.blob or head.path != file.path or head.updated_by != f"sync:{name}":
            found.append(TreeDifference("stale", file.path, identity, file.blob, head.blob))
    found += [
        TreeDifference("extra", head.path or "", head.id, None, head.blob)
        for head in live.values()
        if head.id not in wanted
    ]
    return found


class RepositoryVerifier:
    """Reads the tree itself, not what the last sync made of it."""

    def __init__(
        self,
        repositories: RepositoryStore,
        runbooks: RunbookStore,
        hosts: Hosts,
        reconciler: Reconciler,
    ) -> None:
        self._repositories = repositories
        self._runbooks = runbooks
        self._hosts = hosts
        self._reconciler = reconciler

    async def verify(self, name: str) -> RepositoryComparison:
        """Compare the end of the branch with MongoDB, and MongoDB with the index.

        Raises:
            NotFound: there is no such repository, or its branch is gone.
            InvalidInput: its host may not be contacted (any more).
            TransientError: the host, MongoDB or the retriever is away.
        """
        declared = await self._repositories.get(name)
        declaration = declared.declaration
        async with open_reader(self._hosts.access(declaration), self._hosts.settings) as reader:
            for _ in range(5):
                head = await reader.head(declaration.branch)
                files = selected(await reader.files(head.commit), declaration)
                if (await reader.head(declaration.branch)).commit == head.commit:
                    break
            else:
                raise TransientError("the branch moves all the time")
        heads = [one async for one in self._runbooks.heads(declaration.source)]
        own = {one.id for one in heads}
        comparison = await self._reconciler.verify(repair=False)
        return RepositoryComparison(
            commit=head.commit,
            files=len(files),
            tree=tuple(compare_tree(declared, files, heads)),
            index=tuple(
                (kind, one.runbook_id)
                for kind, items in comparison.differences.by_kind().items()
                for one in items
                if one.runbook_id in own
            ),
            pending=tuple(one for one in comparison.pending if one in own),
        )
