"""Reading a repository, wherever it is: what a reader promises, and which files of a tree are runbooks."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from cairn_shared.errors import NotFound
from cairn_shared.repositories.globs import selects
from cairn_shared.repositories.model import Declaration

MAX_FILES = 20_000
"""Most runbook files of one repository."""


class BranchNotFound(NotFound):
    """There is no such repository or branch, or the token may not see it."""


@dataclass(frozen=True)
class Head:
    """The commit at the end of a branch. `etag` asks again at no cost; `unchanged`: it is still the one asked with."""

    commit: str
    etag: str | None = None
    unchanged: bool = False


@dataclass(frozen=True)
class TreeFile:
    """A regular file of a tree. `size` in bytes, where the host tells it with the tree."""

    path: str
    blob: str
    size: int | None = None


class RepositoryReader(Protocol):
    """One repository. Every method raises `TransientError` (with its `retry_after`) when the host is away or busy."""

    async def head(self, branch: str, known: Head | None = None) -> Head:
        """The end of `branch`.

        Raises:
            BranchNotFound: there is none.
        """
        ...

    async def files(self, commit: str) -> list[TreeFile]:
        """Every regular file of the tree of `commit`: no symbolic links, no submodules."""
        ...

    async def read(self, file: TreeFile, limit: int) -> bytes:
        """The content of a file of the last tree.

        Raises:
            TooLarge: over `limit` bytes; no more is held.
        """
        ...


def selected(files: Iterable[TreeFile], declaration: Declaration) -> list[TreeFile]:
    """The files that `declaration` takes for runbooks, in order of their paths."""
    return sorted(
        (file for file in files if selects(file.path, declaration.include, declaration.exclude)),
        key=lambda file: file.path,
    )


def unsafe_path(path: str) -> str | None:
    """Why `path` is not to be kept though a tree holds it; None for a path that git itself would make.

    A tree is bytes that anybody may have written: its paths become ids, addresses of pages and words on screens.
    """
    if any(part in {"", ".", "..", ".git"} for part in path.split("/")):
        return "the path has a segment that is empty, `.`, `..` or `.git`"
    if "\\" in path or any(unicodedata.category(character) in {"Cc", "Cf", "Cs"} for character in path):
        return "the path has a backslash or a character that cannot be seen"
    return None
