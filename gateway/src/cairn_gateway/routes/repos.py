"""`/repos`: repositories whose Markdown files are runbooks."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from cairn_gateway.dependencies import Gateway, RequireOperator, RequireReader
from cairn_gateway.routes.guarded import GuardedRoute
from cairn_gateway.routes.problems import problems
from cairn_shared.repositories.model import Declaration, Declared, Provider, SyncState

router = APIRouter(prefix="/repos", tags=["repositories"], route_class=GuardedRoute)

RepoName = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9-]{0,59}$")]


class Webhook(BaseModel):
    """What to enter at the provider. The secret itself is in the gateway's environment, under this name."""

    path: str
    events: str
    content_type: str = "application/json"
    setting: Annotated[str, Field(description="The gateway's environment variable with the secret.")]


class RepoView(BaseModel):
    """A repository, and how its last sync went."""

    name: str
    url: str
    branch: str
    include: list[str]
    exclude: list[str]
    provider: Annotated[Provider, Field(description="How it is read.")]
    origin: Literal["api", "file"]
    updated_at: datetime
    updated_by: str
    webhook: Webhook | None
    state: SyncState
    event_id: Annotated[uuid.UUID | None, Field(description="The sync that this request asked for.")] = None

    @classmethod
    def of(cls, declared: Declared, provider: Provider, event_id: uuid.UUID | None = None) -> RepoView:
        """From the store."""
        declaration = declared.declaration
        return cls(
            **declaration.model_dump(exclude={"provider"}),
            provider=provider,
            origin=declared.origin,
            updated_at=declared.updated_at,
            updated_by=declared.updated_by,
            webhook=_webhook(declaration, provider),
            state=declared.state,
            event_id=event_id,
        )


class RepoList(BaseModel):
    """All of them, in order of their names."""

    repos: list[RepoView]


class SyncAsked(BaseModel):
    """The sync is `searchable` at `GET /ingest/{event_id}` when it has ended; the changes follow right after."""

    name: str
    event_id: uuid.UUID | None


class TreeDifferenceView(BaseModel):
    """One path that is not as git has it."""

    kind: Annotated[
        Literal["missing", "stale", "extra"],
        Field(description="No runbook; of another blob or edited by hand; not in the tree."),
    ]
    path: str
    runbook_id: str
    blob: str | None
    stored_blob: str | None


class IndexDifferenceView(BaseModel):
    """A runbook that the index holds otherwise; the kinds are those of `POST /verify`."""

    kind: str
    runbook_id: str


class RepoVerified(BaseModel):
    """The tree at `commit` compared with MongoDB and the index."""

    ok: bool
    name: str
    commit: str
    files: int
    tree: list[TreeDifferenceView]
    index: list[IndexDifferenceView]
    pending: Annotated[list[str], Field(description="Changed too recently to be judged.")]


@router.post("", status_code=201, response_model=RepoView, responses=problems(400, 409, 422))
async def declare(body: Declaration, state: Gateway, who: RequireOperator) -> RepoView:
    """Declare a repository, or change its declaration, and sync it."""
    declared, event_id = await state.repositories.declare(body, by=who.user_id)
    return RepoView.of(declared, state.hosts.provider(declared.declaration), event_id)


@router.get("", response_model=RepoList, responses=problems())
async def list_repos(state: Gateway, _: RequireReader) -> RepoList:
    """Every declared repository."""
    return RepoList(
        repos=[RepoView.of(one, state.hosts.provider(one.declaration)) for one in await state.repositories.all()]
    )


@router.get("/{name}", response_model=RepoView, responses=problems(404, 422))
async def get_repo(name: RepoName, state: Gateway, _: RequireReader) -> RepoView:
    """One of them."""
    declared = await state.repositories.get(name)
    return RepoView.of(declared, state.hosts.provider(declared.declaration))


@router.delete("/{name}", response_model=SyncAsked, responses=problems(404, 422))
async def remove(
    name: RepoName,
    state: Gateway,
    who: RequireOperator,
    keep: Annotated[bool, Query(description="Keep its runbooks, no longer synced.")] = False,
) -> SyncAsked:
    """Remove it and its runbooks."""
    return SyncAsked(name=name, event_id=await state.repositories.remove(name, by=who.user_id, keep=keep))


@router.post("/{name}/sync", status_code=202, response_model=SyncAsked, responses=problems(404, 422))
async def sync(name: RepoName, state: Gateway, _: RequireOperator) -> SyncAsked:
    """Ask for a sync now."""
    return SyncAsked(name=name, event_id=await state.repositories.sync(name))


@router.post("/{name}/verify", response_model=RepoVerified, responses=problems(404, 422))
async def verify(name: RepoName, state: Gateway, _: RequireOperator) -> RepoVerified:
    """Compare the repository's tree with the stored runbooks and with the index."""
    found = await state.repository_verifier.verify(name)
    return RepoVerified(
        ok=found.ok,
        name=name,
        commit=found.commit,
        files=found.files,
        tree=[TreeDifferenceView.model_validate(one, from_attributes=True) for one in found.tree],
        index=[IndexDifferenceView(kind=kind, runbook_id=one) for kind, one in found.index],
        pending=list(found.pending),
    )


def _webhook(declaration: Declaration, provider: Provider) -> Webhook | None:
    if declaration.url.startswith("file:"):
        return None
    if provider == "gitlab":
        return Webhook(path="/webhooks/gitlab", events="Push events", setting="GITLAB_WEBHOOK_TOKEN")
    return Webhook(path="/webhooks/github", events="push", setting="GITHUB_WEBHOOK_SECRET")
