"""The commits of a push from a forge's API, in the terms of its webhook: the same commit is the same document."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, Protocol, TypeVar
from urllib.parse import quote

from pydantic import AwareDatetime, BaseModel, ConfigDict, TypeAdapter, ValidationError

from cairn_shared.documents.commits import CommitFacts
from cairn_shared.errors import TransientError
from cairn_shared.repositories.forge import Forge, parsed
from cairn_shared.repositories.hosts import Access, RepositorySettings
from cairn_shared.repositories.readers import open_forge

PAGE = 100
SPARE = 0.2
"""The share of a rate limit that commits leave to the syncs of runbooks."""

MAX_FILE_PAGES = 30
"""Pages of the files of one commit: GitHub tells 3,000 files at most."""

T = TypeVar("T")


@dataclass(frozen=True)
class Page:
    """Some commits of a range, perhaps without their paths. A range of two commits never changes, nor do its pages."""

    commits: tuple[CommitFacts, ...]
    last: bool


class CommitReader(Protocol):
    """One repository. Every method raises what `Forge.get` raises."""

    async def page(self, base: str | None, after: str, number: int) -> Page:
        """Page `number` (from 1) of the commits that lead to `after` and not to `base`, if there is one."""
        ...

    async def complete(self, commit: CommitFacts) -> CommitFacts:
        """A commit of a page, with its paths."""
        ...


class _Incoming(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Person(_Incoming):
    name: str | None = None
    date: AwareDatetime | None = None


class _Message(_Incoming):
    message: str = ""
    author: _Person | None = None
    committer: _Person | None = None


class _File(_Incoming):
    filename: str
    status: Literal["added", "removed", "modified", "renamed", "copied", "changed", "unchanged"] = "modified"
    previous_filename: str | None = None


class _Commit(_Incoming):
    """A commit of GitHub's and Gitea's APIs."""

    sha: str
    html_url: str | None = None
    commit: _Message
    files: list[_File] | None = None


class _Comparison(_Incoming):
    commits: list[_Commit]


_COMMITS, _COMPARISON, _COMMIT = TypeAdapter(list[_Commit]), TypeAdapter(_Comparison), TypeAdapter(_Commit)


class GitHubCommits:
    """As `CommitReader` (docs.github.com, "Compare two commits", "List commits", "Get a commit")."""

    def __init__(self, forge: Forge, path: str) -> None:
        self._forge = forge
        self._root = f"repos/{quote(path)}"

    async def page(self, base: str | None, after: str, number: int) -> Page:
        query: dict[str, str | int] = {"per_page": PAGE, "page": number}
        if base is None:
            response = await self._forge.get(f"{self._root}/commits", params={**query, "sha": after})
            found = _read(_COMMITS, parsed(response))
        else:
            response = await self._forge.get(f"{self._root}/compare/{quote(base, safe='')}...{after}", params=query)
            found = _read(_COMPARISON, parsed(response)).commits
        return Page(tuple(_github_facts(one) for one in found), last="next" not in response.links or not found)

    async def complete(self, commit: CommitFacts) -> CommitFacts:
        url, files = f"{self._root}/commits/{commit.sha}", list[_File]()
        for _ in range(MAX_FILE_PAGES):
            response = await self._forge.get(url)
            files += _read(_COMMIT, parsed(response)).files or []
            url = response.links.get("next", {}).get("url", "")
            if not url:
                break
        return replace(commit, paths=_paths(files))


class GiteaCommits:
    """As `CommitReader` (Gitea's API, `repoGetAllCommits`); its list tells the paths too."""

    def __init__(self, forge: Forge, path: str) -> None:
        self._forge = forge
        self._root = f"repos/{quote(path)}"

    async def page(self, base: str | None, after: str, number: int) -> Page:
        query: dict[str, str | int] = {"sha": after, "limit": PAGE, "page": number, "files": "true"}
        query |= {"stat": "false", "verification": "false"} | ({"not": base} if base else {})
        response = await self._forge.get(f"{self._root}/commits", params=query)
        found = _read(_COMMITS, parsed(response))
        return Page(tuple(_gitea_facts(one) for one in found), last="next" not in response.links or not found)

    async def complete(self, commit: CommitFacts) -> CommitFacts:
        return commit


class _GitLabCommit(_Incoming):
    id: str
    message: str = ""
    committed_date: AwareDatetime
    author_name: str | None = None
    web_url: str | None = None


class _Change(_Incoming):
    old_path: str
    new_path: str
    new_file: bool = False
    renamed_file: bool = False
    deleted_file: bool = False


_GITLAB_COMMITS, _CHANGES = TypeAdapter(list[_GitLabCommit]), TypeAdapter(list[_Change])


class GitLabCommits:
    """As `CommitReader` (docs.gitlab.com, "Commits API"); `ref_name` takes a range of revisions."""

    def __init__(self, forge: Forge, path: str) -> None:
        self._forge = forge
        self._root = f"projects/{quote(path, safe='')}/repository/commits"

    async def page(self, base: str | None, after: str, number: int) -> Page:
        span = f"{base}..{after}" if base else after
        query: dict[str, str | int] = {"ref_name": span, "per_page": PAGE, "page": number}
        response = await self._forge.get(self._root, params=query)
        found = _read(_GITLAB_COMMITS, parsed(response))
        commits = tuple(
            CommitFacts(one.id.lower(), one.message, one.committed_date, one.author_name, one.web_url, ())
            for one in found
        )
        return Page(commits, last="next" not in response.links or not found)

    async def complete(self, commit: CommitFacts) -> CommitFacts:
        added, modified, removed = list[str](), list[str](), list[str]()
        url = f"{self._root}/{commit.sha}/diff"
        params: dict[str, str | int] | None = {"per_page": PAGE}
        for _ in range(MAX_FILE_PAGES):
            response = await self._forge.get(url, params=params)
            for change in _read(_CHANGES, parsed(response)):
                # As GitLab's webhook sorts them: a rename is its new path.
                if change.deleted_file:
                    removed.append(change.old_path)
                elif change.renamed_file or change.new_file:
                    added.append(change.new_path)
                else:
                    modified.append(change.new_path)
            url, params = response.links.get("next", {}).get("url", ""), None
            if not url:
                break
        return replace(commit, paths=(*added, *modified, *removed))


@asynccontextmanager
async def open_commits(access: Access, settings: RepositorySettings) -> AsyncIterator[CommitReader]:
    """A reader of the repository's commits; closed at the end."""
    async with open_forge(access, settings.repo_timeout, SPARE) as forge:
        match access.provider:
            case "gitlab":
                yield GitLabCommits(forge, access.path)
            case "gitea":
                yield GiteaCommits(forge, access.path)
            case _:
                yield GitHubCommits(forge, access.path)


def _github_facts(one: _Commit) -> CommitFacts:
    """GitHub's webhook gives the committer's date."""
    return _facts(one, _date(one.commit.committer) or _date(one.commit.author))


def _gitea_facts(one: _Commit) -> CommitFacts:
    """Gitea's webhook gives the author's date."""
    facts = _facts(one, _date(one.commit.author))
    return replace(facts, paths=_paths(one.files or []))


def _date(person: _Person | None) -> datetime | None:
    return person.date if person else None


def _facts(one: _Commit, at: datetime | None) -> CommitFacts:
    if at is None:
        raise TransientError("the repository's host gave a commit without a date")
    name = one.commit.author.name if one.commit.author else None
    return CommitFacts(one.sha.lower(), one.commit.message, at, name, one.html_url, ())


def _paths(files: Iterable[_File]) -> tuple[str, ...]:
    """As webhooks list them: added, modified, removed; a rename is one path removed and one added."""
    added, modified, removed = list[str](), list[str](), list[str]()
    for file in files:
        if file.status in {"added", "copied", "renamed"}:
            added.append(file.filename)
            if file.status == "renamed":
                removed.append(file.previous_filename or file.filename)
        elif file.status == "removed":
            removed.append(file.filename)
        else:
            modified.append(file.filename)
    return (*added, *modified, *removed)


def _read(adapter: TypeAdapter[T], value: Any) -> T:
    try:
        return adapter.validate_python(value)
    except ValidationError as exc:
        raise TransientError("the repository's host gave an answer that is no list of commits") from exc
