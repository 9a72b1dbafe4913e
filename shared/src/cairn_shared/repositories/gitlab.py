"""GitLab's repositories API (docs.gitlab.com, "Repositories API")."""

from __future__ import annotations

from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from cairn_shared.errors import TransientError
from cairn_shared.repositories.forge import Forge, parsed
from cairn_shared.repositories.github import REGULAR
from cairn_shared.repositories.reading import Head, TreeFile

PAGE = 100
MAX_PAGES = 5_000


class _Entry(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: str
    path: str
    mode: str
    type: str


class _Branch(BaseModel):
    class Commit(BaseModel):
        id: str

    commit: Commit


_ENTRIES, _BRANCH = TypeAdapter(list[_Entry]), TypeAdapter(_Branch)


class GitLabReader:
    """As `reading.RepositoryReader`."""

    def __init__(self, forge: Forge, path: str) -> None:
        self._forge = forge
        self._root = f"projects/{quote(path, safe='')}/repository"

    async def head(self, branch: str, known: Head | None = None) -> Head:
        etag = known.etag if known else None
        response = await self._forge.get(f"{self._root}/branches/{quote(branch, safe='')}", etag=etag)
        if response.status_code == 304 and known is not None:
            return Head(known.commit, known.etag, unchanged=True)
        try:
            commit = _BRANCH.validate_python(parsed(response)).commit.id
        except ValidationError as exc:
            raise TransientError("the repository's host gave an answer that is no branch") from exc
        return Head(commit, response.headers.get("etag"))

    async def files(self, commit: str) -> list[TreeFile]:
        """Page by page, by keyset: pages by number would shift, but the commit holds the tree still."""
        found: list[TreeFile] = []
        url = f"{self._root}/tree"
        params: dict[str, str | int] | None = {
            "ref": commit,
            "recursive": "true",
            "per_page": PAGE,
            "pagination": "keyset",
        }
        for _ in range(MAX_PAGES):
            response = await self._forge.get(url, params=params)
            try:
                entries = _ENTRIES.validate_python(parsed(response))
            except ValidationError as exc:
                raise TransientError("the repository's host gave an answer that is no tree") from exc
            found += [TreeFile(one.path, one.id) for one in entries if one.type == "blob" and one.mode in REGULAR]
            following = response.links.get("next", {}).get("url")
            if not following:
                return found
            url, params = following, None
        raise TransientError(f"the tree has over {MAX_PAGES * PAGE} entries")

    async def read(self, file: TreeFile, limit: int) -> bytes:
        response = await self._forge.get(f"{self._root}/blobs/{file.blob}/raw", accept="*/*", limit=limit)
        return response.content
