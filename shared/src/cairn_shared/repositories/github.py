"""GitHub's Git database API (docs.github.com, "Git database")."""

from __future__ import annotations

from collections import deque
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from cairn_shared.errors import TransientError
from cairn_shared.repositories.forge import Forge, parsed
from cairn_shared.repositories.reading import Head, TreeFile

MAX_TREES = 20_000
"""Most requests for one tree that had to be asked for folder by folder."""

REGULAR = frozenset({"100644", "100755"})


class _Entry(BaseModel):
    model_config = ConfigDict(extra="ignore")

    path: str
    mode: str
    type: str
    sha: str
    size: int | None = None


class _Tree(BaseModel):
    model_config = ConfigDict(extra="ignore")

    tree: list[_Entry]
    truncated: bool = False


class _Reference(BaseModel):
    class Target(BaseModel):
        sha: str

    object: Target


_TREE, _REFERENCE = TypeAdapter(_Tree), TypeAdapter(_Reference)


class GitHubReader:
    """As `reading.RepositoryReader`."""

    def __init__(self, forge: Forge, path: str) -> None:
        self._forge = forge
        self._root = f"repos/{quote(path)}/git"

    async def head(self, branch: str, known: Head | None = None) -> Head:
        etag = known.etag if known else None
        response = await self._forge.get(f"{self._root}/ref/heads/{quote(branch)}", etag=etag)
        if response.status_code == 304 and known is not None:
            return Head(known.commit, known.etag, unchanged=True)
        try:
            commit = _REFERENCE.validate_python(parsed(response)).object.sha
        except ValidationError as exc:
            raise TransientError("the repository's host gave an answer that is no reference") from exc
        return Head(commit, response.headers.get("etag"))

    async def files(self, commit: str) -> list[TreeFile]:
        """One request; a tree that GitHub cuts (100,000 entries or 7 MB) is asked for folder by folder."""
        whole = await self._tree(commit, recursive=True)
        if not whole.truncated:
            return [_file(entry, "") for entry in whole.tree if entry.type == "blob" and entry.mode in REGULAR]
        found: list[TreeFile] = []
        waiting = deque([("", commit)])
        asked = 0
        while waiting:
            folder, sha = waiting.popleft()
            asked += 1
            if asked > MAX_TREES:
                raise TransientError(f"the tree has over {MAX_TREES} folders")
            tree = await self._tree(sha, recursive=False)
            if tree.truncated:
                raise TransientError("a single folder is larger than the repository's host tells")
            for entry in tree.tree:
                if entry.type == "tree":
                    waiting.append((f"{folder}{entry.path}/", entry.sha))
                elif entry.type == "blob" and entry.mode in REGULAR:
                    found.append(_file(entry, folder))
        return found

    async def read(self, file: TreeFile, limit: int) -> bytes:
        response = await self._forge.get(
            f"{self._root}/blobs/{file.blob}", accept="application/vnd.github.raw+json", limit=limit
        )
        return response.content

    async def _tree(self, sha: str, *, recursive: bool) -> _Tree:
        params: dict[str, str | int] = {"recursive": 1} if recursive else {}
        try:
            return _TREE.validate_python(await self._forge.json(f"{self._root}/trees/{sha}", params=params))
        except ValidationError as exc:
            raise TransientError("the repository's host gave an answer that is no tree") from exc


def _file(entry: _Entry, folder: str) -> TreeFile:
    return TreeFile(f"{folder}{entry.path}", entry.sha, entry.size)
