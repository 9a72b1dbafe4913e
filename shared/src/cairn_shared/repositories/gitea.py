"""Gitea's and Forgejo's API (docs.gitea.com, "API")."""

from __future__ import annotations

import base64
import binascii
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from cairn_shared.errors import TooLarge, TransientError
from cairn_shared.repositories.forge import Forge, parsed
from cairn_shared.repositories.github import REGULAR
from cairn_shared.repositories.reading import Head, TreeFile

PAGE = 1000
MAX_PAGES = 1_000


class _Entry(BaseModel):
    model_config = ConfigDict(extra="ignore")

    path: str
    mode: str
    type: str
    sha: str
    size: int | None = None


class _Tree(BaseModel):
    model_config = ConfigDict(extra="ignore")

    tree: list[_Entry] | None = None
    truncated: bool = False
    total_count: int = 0


class _Blob(BaseModel):
    content: str | None = ""
    encoding: str | None = "base64"


class _Branch(BaseModel):
    class Commit(BaseModel):
        id: str

    commit: Commit


_TREE, _BRANCH, _BLOB = TypeAdapter(_Tree), TypeAdapter(_Branch), TypeAdapter(_Blob)


class GiteaReader:
    """As `reading.RepositoryReader`."""

    def __init__(self, forge: Forge, path: str) -> None:
        self._forge = forge
        self._root = f"repos/{quote(path)}"

    async def head(self, branch: str, known: Head | None = None) -> Head:
        del known  # Gitea has no ETags here
        response = await self._forge.get(f"{self._root}/branches/{quote(branch)}")
        try:
            return Head(_BRANCH.validate_python(parsed(response)).commit.id)
        except ValidationError as exc:
            raise TransientError("the repository's host gave an answer that is no branch") from exc

    async def files(self, commit: str) -> list[TreeFile]:
        """Page by page until the server's own count is reached; it may give smaller pages than asked for."""
        found: list[TreeFile] = []
        seen = 0
        for page in range(1, MAX_PAGES + 1):
            params: dict[str, str | int] = {"recursive": "true", "per_page": PAGE, "page": page}
            try:
                tree = _TREE.validate_python(await self._forge.json(f"{self._root}/git/trees/{commit}", params=params))
            except ValidationError as exc:
                raise TransientError("the repository's host gave an answer that is no tree") from exc
            entries = tree.tree or []
            seen += len(entries)
            found += [
                TreeFile(one.path, one.sha, one.size) for one in entries if one.type == "blob" and one.mode in REGULAR
            ]
            if not entries or (seen >= tree.total_count and not tree.truncated):
                if seen < tree.total_count:
                    raise TransientError("the repository's host told only a part of the tree")
                return found
        raise TransientError(f"the tree has over {MAX_PAGES * PAGE} entries")

    async def read(self, file: TreeFile, limit: int) -> bytes:
        # The content comes as base64 in JSON: four characters for three bytes, and some more around it.
        answer = await self._forge.json(f"{self._root}/git/blobs/{file.blob}", limit=limit * 3 // 2 + 4096)
        try:
            content = base64.b64decode(_BLOB.validate_python(answer).content or "", validate=False)
        except (ValidationError, binascii.Error) as exc:
            raise TransientError("the repository's host gave an answer that is no blob") from exc
        if len(content) > limit:
            raise TooLarge(f"over {limit} bytes", field="size")
        return content
