"""From a way of access to a reader."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from cairn_shared.repositories.forge import Forge
from cairn_shared.repositories.gitea import GiteaReader
from cairn_shared.repositories.github import GitHubReader
from cairn_shared.repositories.gitlab import GitLabReader
from cairn_shared.repositories.hosts import Access
from cairn_shared.repositories.reading import RepositoryReader

_AGENT = {"user-agent": "cairn"}


@asynccontextmanager
async def open_reader(access: Access, timeout: float) -> AsyncIterator[RepositoryReader]:
    """A reader of the repository; closed at the end. `timeout` in seconds, for one request."""
    if access.provider == "git":
        # dulwich is loaded by who clones only.
        from cairn_shared.repositories.git import RemoteGitReader, local_reader

        reader = (
            local_reader(access.path)
            if access.base.startswith("file:")
            else RemoteGitReader(access.base, access.token, timeout)
        )
        try:
            yield reader
        finally:
            await reader.close()
        return
    async with httpx.AsyncClient(timeout=timeout, trust_env=False, follow_redirects=False) as client:
        token = access.token.get_secret_value() if access.token else None
        if access.provider == "gitlab":
            headers = {**_AGENT, **({"private-token": token} if token else {})}
            yield GitLabReader(Forge(client, access.base, headers), access.path)
        elif access.provider == "gitea":
            headers = {**_AGENT, **({"authorization": f"token {token}"} if token else {})}
            yield GiteaReader(Forge(client, access.base, headers), access.path)
        else:
            bearer = {"authorization": f"Bearer {token}"} if token else {}
            headers = {**_AGENT, "x-github-api-version": "2022-11-28", **bearer}
            yield GitHubReader(Forge(client, access.base, headers), access.path)
