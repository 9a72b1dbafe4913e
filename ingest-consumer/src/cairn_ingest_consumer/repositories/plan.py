"""What has to change so that the runbooks are the tree. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cairn_shared.repositories.model import Declaration, Provider, Skipped, page_url, runbook_id
from cairn_shared.repositories.reading import TreeFile, unsafe_path
from cairn_shared.runbooks.records import Head


@dataclass(frozen=True)
class Plan:
    """`write`: files by the id of their runbook, new or changed. `delete`: ids of runbooks whose file is gone."""

    write: Mapping[str, TreeFile]
    delete: tuple[str, ...]
    skipped: tuple[Skipped, ...]


def writer(name: str) -> str:
    """Who writes the runbooks of the repository `name`, as their revisions say."""
    return f"sync:{name}"


def plan(
    declaration: Declaration,
    provider: Provider,
    files: Iterable[TreeFile],
    heads: Iterable[Head],
    *,
    taken: Mapping[str, str] = {},
    unreadable: Mapping[str, Skipped] = {},
    again_from: str | None = None,
) -> Plan:
    """Compare the tree with the runbooks.

    A rename is one path less and one more: the new runbook is written before the old one is deleted, so that the
    text can be found at any moment.

    Args:
        declaration: whose files they are.
        provider: how the repository is read, for the addresses of pages.
        files: those of the tree that `declaration` selects.
        heads: the runbooks of this repository, tombstones too.
        taken: ids that belong to other sources, with the source's name.
        unreadable: by path, what the last sync found to be no runbook.
        again_from: read the files of this and all higher ids again, whatever their blob.
    """
    by_id = {head.id: head for head in heads}
    write: dict[str, TreeFile] = {}
    skipped: list[Skipped] = []
    kept: set[str] = set()
    for file in files:
        if reason := unsafe_path(file.path):
            skipped.append(Skipped(path=ascii(file.path)[1:-1], reason=reason, blob=file.blob))
            continue
        identity = runbook_id(declaration.name, file.path)
        if identity in taken:
            skipped.append(Skipped(path=file.path, reason=f"the id {identity} belongs to {taken[identity]}"))
            continue
        again = again_from is not None and identity >= again_from
        known = unreadable.get(file.path)
        if known is not None and known.blob == file.blob and not again:
            skipped.append(known)
            continue
        kept.add(identity)
        head = by_id.get(identity)
        if again or head is None or not _is_same(head, file, declaration, provider):
            write[identity] = file
    gone = tuple(sorted(head.id for head in by_id.values() if not head.deleted and head.id not in kept))
    return Plan(write, gone, tuple(skipped))


def _is_same(head: Head, file: TreeFile, declaration: Declaration, provider: Provider) -> bool:
    """A runbook that somebody edited by hand is not: git is its truth."""
    return (
        not head.deleted
        and head.blob == file.blob
        and head.path == file.path
        and head.url == page_url(declaration, provider, file.path)
        and head.updated_by == writer(declaration.name)
    )
