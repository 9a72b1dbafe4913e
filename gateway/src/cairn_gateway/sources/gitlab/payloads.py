"""The parts of GitLab's payloads that are used."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from cairn_gateway.sources.incoming import Hidden, Incoming, Time
from cairn_gateway.sources.model import Delivery
from cairn_gateway.sources.place import Place, place

Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{7,64}$", to_lower=True)]


class User(Incoming):
    name: str | None = None
    username: str | None = None
    email: str | None = None

    def shown(self) -> str | None:
        return self.username or self.name


class Project(Incoming):
    path_with_namespace: Annotated[str, StringConstraints(min_length=1, max_length=300)]
    web_url: str | None = None
    git_http_url: str | None = None
    git_ssh_url: str | None = None
    default_branch: str | None = None


class Base(Incoming):
    project: Project
    user: User | None = None

    def place(self, delivery: Delivery) -> Place:
        """GitLab sends `Idempotency-Key` since 17.4, unchanged when it tries again."""
        return place(
            "gitlab",
            "gitlab.com",
            full_name=self.project.path_with_namespace,
            web_url=self.project.web_url,
            clone_urls=[self.project.git_http_url, self.project.git_ssh_url],
            delivery=delivery,
            delivery_id=delivery.id_from("idempotency-key"),
        )


class Commit(Incoming):
    id: Sha
    message: str = ""
    timestamp: Time | None = None
    url: str | None = None
    author: User = User()
    added: list[str] | None = None
    modified: list[str] | None = None
    removed: list[str] | None = None


class Push(Base):
    ref: Annotated[str, StringConstraints(pattern=r"^refs/.+")]
    before: str | None = None
    after: str | None = None
    commits: list[Commit] | None = None
    total_commits_count: int = 0


class Label(Incoming):
    title: str = ""


class Discussed(Incoming):
    """An issue or a merge request."""

    iid: Annotated[int, Field(ge=1)]
    title: str = ""
    description: str | None = None
    state: str | None = None
    action: str | None = None
    url: str | None = None
    created_at: Time | None = None
    updated_at: Time | None = None
    confidential: Hidden = False
    source_branch: str | None = None
    target_branch: str | None = None
    merge_commit_sha: str | None = None

    def time(self) -> Time | None:
        return self.updated_at or self.created_at


class IssuePayload(Base):
    object_attributes: Discussed
    labels: list[Label] | None = None
    assignees: list[User] | None = None


class MergeRequestPayload(IssuePayload):
    pass


class Note(Incoming):
    id: int
    note: str = ""
    noteable_type: str
    system: bool | None = False
    internal: Hidden = False
    confidential: Hidden = False
    action: str | None = None
    url: str | None = None
    created_at: Time | None = None
    updated_at: Time | None = None


class Noted(Incoming):
    """What a note hangs on: enough to name its document."""

    iid: int | None = None
    title: str | None = None
    confidential: Hidden = False


class NotedCommit(Incoming):
    id: Sha
    message: str = ""


class NotePayload(Base):
    object_attributes: Note
    issue: Noted | None = None
    merge_request: Noted | None = None
    commit: NotedCommit | None = None


class Build(Incoming):
    name: str = ""
    stage: str | None = None
    status: str | None = None
    failure_reason: str | None = None
    allow_failure: bool | None = False
    started_at: Time | None = None
    finished_at: Time | None = None


class Said(Incoming):
    """A commit that is only quoted."""

    message: str = ""


class Pipeline(Incoming):
    id: int
    ref: str | None = None
    sha: str | None = None
    status: str
    source: str | None = None
    url: str | None = None
    created_at: Time | None = None
    finished_at: Time | None = None
    duration: float | None = None


class PipelinePayload(Base):
    object_attributes: Pipeline
    commit: Said | None = None
    builds: list[Build] | None = None


class DeploymentPayload(Base):
    deployment_id: int
    status: str
    status_changed_at: Time | None = None
    environment: str | None = None
    ref: str | None = None
    short_sha: str | None = None
    commit_title: str | None = None
    deployable_url: str | None = None
