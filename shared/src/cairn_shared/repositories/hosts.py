"""Which hosts may be contacted for a repository, and as what. Nothing else ever is: not by a redirect either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, SecretStr

from cairn_shared.errors import InvalidInput
from cairn_shared.repositories.model import Declaration, Provider
from cairn_shared.settings import Settings


class RepositorySettings(Settings):
    """Where repositories may be, and the tokens to read them. A token goes over its API's scheme to its host only."""

    github_api_url: Annotated[str, Field(pattern=r"^https?://")] = "https://api.github.com"
    github_token: SecretStr | None = None
    gitlab_api_url: Annotated[str, Field(pattern=r"^https?://")] = "https://gitlab.com/api/v4"
    gitlab_token: SecretStr | None = None
    gitea_api_url: Annotated[
        str | None, Field(pattern=r"^https?://", description="Of Gitea or Forgejo, with its /api/v1.")
    ] = None
    gitea_token: SecretStr | None = None
    repo_hosts: Annotated[
        str, Field(description="More hosts to clone from, separated by commas; host:port where it is not the default.")
    ] = ""
    allow_local_repos: Annotated[bool, Field(description="Allow file:// repositories.")] = False
    repo_clone_mib: Annotated[
        int, Field(ge=1, description="Largest clone of a `git` repository, in MiB on the wire.")
    ] = 512
    repo_inflated_mib: Annotated[
        int, Field(ge=1, description="Largest clone of a `git` repository, in MiB of unpacked objects.")
    ] = 1024
    repo_clone_objects: Annotated[int, Field(ge=1, description="Most objects of a clone, and files of a tree.")] = (
        200_000
    )
    repo_memory_mib: Annotated[
        int, Field(ge=256, description="Address space, in MiB, of the process that reads a `git` repository.")
    ] = 2048
    repo_clone_timeout: Annotated[float, Field(gt=0, description="Seconds that a clone may take.")] = 120.0
    repo_timeout: Annotated[float, Field(gt=0, description="Seconds for one request to a repository's host.")] = 30.0


@dataclass(frozen=True)
class Access:
    """How to read one repository. `base` is the provider's API, or the repository itself for `git`."""

    provider: Provider
    base: str
    path: str
    token: SecretStr | None


@dataclass(frozen=True)
class Hosts:
    """The decision of what may be contacted."""

    settings: RepositorySettings

    def access(self, declaration: Declaration) -> Access:
        """How to read the repository.

        Raises:
            InvalidInput: its host is not configured, local repositories are not allowed, or the provider has no API
                configured for this host.
        """
        parts = urlsplit(declaration.url)
        if parts.scheme == "file":
            if not self.settings.allow_local_repos:
                raise InvalidInput("file:// repositories are not allowed here (ALLOW_LOCAL_REPOS)", field="url")
            if declaration.provider not in {"auto", "git"}:
                raise InvalidInput("a file:// repository is read as git", field="provider")
            return Access("git", declaration.url, parts.path, None)
        host = parts.netloc.lower()
        path = parts.path.strip("/").removesuffix(".git")
        apis = self._apis()
        if declaration.provider == "auto":
            found = next((access for access in apis if _web_host(access.base) == host), None)
            if found is not None:
                return Access(found.provider, found.base, path, found.token)
        elif declaration.provider != "git":
            found = next((access for access in apis if access.provider == declaration.provider), None)
            if found is None or _web_host(found.base) != host:
                setting = f"{declaration.provider.upper()}_API_URL"
                raise InvalidInput(f"{setting} does not name an API of the host {host}", field="provider")
            return Access(found.provider, found.base, path, found.token)
        own = next((access for access in apis if _web_host(access.base) == host), None)
        if own is None and host not in self._listed():
            raise InvalidInput(f"the host {host} is not among those that may be contacted (REPO_HOSTS)", field="url")
        if own is None or own.token is None:
            return Access("git", declaration.url, path, None)
        scheme = urlsplit(own.base).scheme
        if parts.scheme != scheme:
            raise InvalidInput(f"the token of {host} goes over {scheme}:// only; write the url so", field="url")
        return Access("git", declaration.url, path, own.token)

    def api(self, host: str, path: str) -> Access:
        """How to ask the API of the repository `path` at `host` (as people see it) for more than a clone would tell.

        Raises:
            InvalidInput: no API of this host is configured, or no token for it; the detail names the settings.
        """
        found = next((access for access in self._apis() if _web_host(access.base) == host.lower()), None)
        if found is None:
            raise InvalidInput(f"no GITHUB_API_URL, GITLAB_API_URL or GITEA_API_URL is of the host {host}", field="url")
        if found.token is None:
            raise InvalidInput(f"{found.provider.upper()}_TOKEN is not set", field="token")
        return Access(found.provider, found.base, path, found.token)

    def with_token(self) -> frozenset[str]:
        """The hosts that `api` takes."""
        return frozenset(_web_host(access.base) for access in self._apis() if access.token is not None)

    def provider(self, declaration: Declaration) -> Provider:
        """How it is read; as declared where its host is not configured (any more)."""
        try:
            return self.access(declaration).provider
        except InvalidInput:
            return declaration.provider

    def _apis(self) -> list[Access]:
        settings = self.settings
        found = [
            Access("github", settings.github_api_url.rstrip("/"), "", settings.github_token),
            Access("gitlab", settings.gitlab_api_url.rstrip("/"), "", settings.gitlab_token),
        ]
        if settings.gitea_api_url:
            found.append(Access("gitea", settings.gitea_api_url.rstrip("/"), "", settings.gitea_token))
        return found

    def _listed(self) -> set[str]:
        return {host.strip().lower() for host in self.settings.repo_hosts.split(",") if host.strip()}


def _web_host(api: str) -> str:
    """The host that people see: `github.com` for `api.github.com`, otherwise the same."""
    host = urlsplit(api).netloc.lower()
    return "github.com" if host == "api.github.com" else host
