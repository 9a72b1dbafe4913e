"""What a runbook repository is: its declaration, and what the last sync made of it."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from typing import Annotated, Literal
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from cairn_shared.errors import InvalidInput
from cairn_shared.repositories.globs import compile_pattern
from cairn_shared.repositories.urls import canonical

DEFAULT_INCLUDE = ("**/*.md", "**/*.markdown")

Provider = Literal["auto", "github", "gitlab", "gitea", "git"]


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"https", "http", "file"}:
        raise ValueError("must begin with https://, http:// or file://")
    if parts.username or parts.password:
        raise ValueError("must hold no user or password; tokens are settings (GITHUB_TOKEN and the like)")
    if parts.query or parts.fragment:
        raise ValueError("must have no ? or #")
    if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        raise ValueError("a file URL has three slashes: file:///path/to/repository")
    if parts.scheme != "file" and (not parts.hostname or not parts.path.strip("/")):
        raise ValueError("must name a host and a repository")
    if ".." in parts.path.split("/"):
        raise ValueError("must have no .. in it")
    return url.rstrip("/")


def _checked_pattern(pattern: str) -> str:
    try:
        compile_pattern(pattern)
    except InvalidInput as exc:
        raise ValueError(exc.detail) from exc
    return pattern


Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,59}$")]
Url = Annotated[str, StringConstraints(max_length=1000), AfterValidator(_checked_url)]
Branch = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._/+@#-]{0,199}$")]
Pattern = Annotated[str, StringConstraints(min_length=1, max_length=300), AfterValidator(_checked_pattern)]


class Declaration(BaseModel):
    """A repository whose Markdown files are runbooks. Git is their truth: edits elsewhere last until the next sync."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[Name, Field(description="Lower case letters, digits and `-`; the start of its runbooks' ids.")]
    url: Annotated[Url, Field(description="The address to clone from, without credentials.")]
    branch: Branch = "main"
    include: Annotated[tuple[Pattern, ...], Field(min_length=1, max_length=50)] = DEFAULT_INCLUDE
    exclude: Annotated[tuple[Pattern, ...], Field(max_length=50)] = ()
    provider: Annotated[Provider, Field(description="`auto` follows from the host; `git` clones.")] = "auto"

    @property
    def canonical_url(self) -> str:
        """The URL as pushes are compared with it."""
        return canonical(self.url)

    @property
    def source(self) -> str:
        """`Runbook.source` of its runbooks."""
        return f"repo:{self.name}"

    def settings_digest(self) -> str:
        """Changes when the set of files may change though the tree does not."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


class Skipped(BaseModel):
    """A file that is no runbook, and why. With the same `blob` it need not be read again."""

    path: str
    reason: str
    blob: str | None = None


class Warned(BaseModel):
    """A file that was taken though its author should know something. It holds for this `blob`."""

    path: str
    blob: str
    warnings: list[str]


class SyncState(BaseModel):
    """What became of the last sync. `error` is None when it ended well."""

    commit: str | None = None
    etag: str | None = None
    digest: Annotated[str | None, Field(description="Of the declaration that was synced.")] = None
    loader: Annotated[str | None, Field(description="The version of the loader that read every file.")] = None
    resume: Annotated[str | None, Field(description="Where reading every file again goes on.")] = None
    files: int = 0
    written: int = 0
    deleted: int = 0
    skipped: list[Skipped] = []
    warned: Annotated[list[Warned], Field(description="Files with front matter that was left out.")] = []
    event_ids: Annotated[list[str], Field(description="What makes the last changes searchable.")] = []
    started_at: datetime | None = None
    synced_at: datetime | None = None
    error: str | None = None
    failures: int = 0
    retry_at: datetime | None = None


class Declared(BaseModel):
    """A declaration as stored. A removed one stays, so that its runbooks can be taken away whenever that happens."""

    declaration: Declaration
    origin: Literal["api", "file"]
    removed: bool
    updated_at: datetime
    updated_by: str
    state: SyncState = SyncState()


_SEGMENT = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?"
_PLAIN = re.compile(f"{_SEGMENT}(?:/{_SEGMENT})*")


def runbook_id(name: str, path: str) -> str:
    """The id of the runbook at `path`: `NAME.folder.file`. The same path has the same id in every sync.

    A path with other characters, with dots before `.md`, or too long gets a digest at its end, so that no two paths
    share an id.
    """
    stem = path.removesuffix(".md")
    plain = _PLAIN.fullmatch(stem) is not None and path.endswith(".md")
    parts = (re.sub(r"[^A-Za-z0-9_-]+", "-", part).strip("-") or "x" for part in stem.split("/"))
    made = f"{name}.{'.'.join(parts)}"
    if plain and len(made) <= 200:
        return made
    return f"{made[:187]}-{hashlib.sha256(path.encode()).hexdigest()[:12]}"


def page_url(declaration: Declaration, provider: Provider, path: str) -> str | None:
    """Where a person reads the file; None for a repository without a forge."""
    base = declaration.url.removesuffix(".git")
    branch, where = quote(declaration.branch, safe="/"), quote(path, safe="/")
    match provider:
        case "github":
            return f"{base}/blob/{branch}/{where}"
        case "gitlab":
            return f"{base}/-/blob/{branch}/{where}"
        case "gitea":
            return f"{base}/src/branch/{branch}/{where}"
        case _:
            return None
