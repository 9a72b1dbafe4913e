"""From a way of access to a reader."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from cairn_shared.repositories.forge import Forge
from cairn_shared.repositories.git_process import ProcessReader
from cairn_shared.repositories.gitea import GiteaReader
from cairn_shared.repositories.github import GitHubReader
from cairn_shared.repositories.gitlab import GitLabReader
from cairn_shared.repositories.hosts import Access, RepositorySettings
from cairn_shared.repositories.limits import CloneLimits, ProcessLimits
from cairn_shared.repositories.reading import RepositoryReader

_AGENT = {"user-agent": "cairn"}


@asynccontextmanager
async def open_reader(access: Access, settings: RepositorySettings) -> AsyncIterator[RepositoryReader]:
    """A reader of the repository; closed at the end."""
    if access.provider == "git":
        place = access.path if access.base.startswith("file:") else access.base
        reader = ProcessReader(place, access.token, _limits(settings))
        try:
            yield reader
        finally:
            await reader.close()
        return
    async with open_forge(access, settings.repo_timeout) as forge:
        match access.provider:
            case "gitlab":
                yield GitLabReader(forge, access.path)
            case "gitea":
                yield GiteaReader(forge, access.path)
            case _:
                yield GitHubReader(forge, access.path)


def _limits(settings: RepositorySettings) -> ProcessLimits:
    clone = CloneLimits(
        settings.repo_clone_mib, settings.repo_clone_timeout, settings.repo_inflated_mib, settings.repo_clone_objects
    )
    return ProcessLimits(clone, settings.repo_memory_mib, settings.repo_timeout)


@asynccontextmanager
async def open_forge(access: Access, timeout: float, spare: float = 0.0) -> AsyncIterator[Forge]:
    """The API that `access` names, with its token; `spare` as `Forge` has it."""
    token = access.token.get_secret_value() if access.token else None
    headers = dict(_AGENT)
    match access.provider:
        case "gitlab":
            headers |= {"private-token": token} if token else {}
        case "gitea":
            headers |= {"authorization": f"token {token}"} if token else {}
        case _:
            headers |= {"x-github-api-version": "2022-11-28"}
            headers |= {"authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(timeout=timeout, trust_env=False, follow_redirects=False) as client:
        yield Forge(client, access.base, headers, spare=spare)
