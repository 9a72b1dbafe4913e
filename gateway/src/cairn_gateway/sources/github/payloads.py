"""The parts of GitHub's payloads that are used (docs.github.com, "Webhook events and payloads").

Gitea and Forgejo send the same shapes with fewer fields, so most are optional.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from cairn_gateway.sources.incoming import Incoming, Time

Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{7,64}$", to_lower=True)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=300)]


class User(Incoming):
    login: str | None = None
    username: str | None = None
    name: str | None = None
    email: str | None = None

    def shown(self) -> str | None:
        return self.name or self.login or self.username


class Repository(Incoming):
    full_name: Name
    name: str | None = None
    html_url: str | None = None
    clone_url: str | None = None
    ssh_url: str | None = None
    git_url: str | None = None
    pushed_at: Time | None = None
    default_branch: str | None = None


class Commit(Incoming):
    id: Sha
    message: str = ""
    timestamp: Time | None = None
    url: str | None = None
    author: User = User()
    committer: User = User()
    added: list[str] | None = None
    removed: list[str] | None = None
    modified: list[str] | None = None

    def paths(self) -> list[str]:
        return [*(self.added or []), *(self.modified or []), *(self.removed or [])]


class Base(Incoming):
    """What every payload has; `action` is absent from push."""

    action: str | None = None
    repository: Repository
    sender: User | None = None


class Push(Base):
    ref: Annotated[str, StringConstraints(pattern=r"^refs/.+")]
    before: str | None = None
    after: str | None = None
    created: bool = False
    deleted: bool = False
    forced: bool = False
    commits: list[Commit] | None = None
    total_commits: int = 0
    head_commit: Commit | None = None


class Label(Incoming):
    name: str = ""


class Milestone(Incoming):
    title: str = ""


class Branch(Incoming):
    ref: str | None = None
    sha: str | None = None


class Issue(Incoming):
    """An issue; with `pull_request` set, the conversation of a pull request."""

    number: Annotated[int, Field(ge=1)]
    title: str = ""
    body: str | None = None
    state: str | None = None
    state_reason: str | None = None
    html_url: str | None = None
    user: User | None = None
    labels: list[Label] | None = None
    assignees: list[User] | None = None
    milestone: Milestone | None = None
    created_at: Time | None = None
    updated_at: Time | None = None
    pull_request: dict[str, Any] | None = None

    def time(self) -> Time | None:
        return self.updated_at or self.created_at


class PullRequest(Issue):
    pull_request: None = None
    draft: bool = False
    merged: bool | None = False
    merged_at: Time | None = None
    merge_commit_sha: str | None = None
    head: Branch = Branch()
    base: Branch = Branch()


class Comment(Incoming):
    id: int
    body: str | None = None
    html_url: str | None = None
    user: User | None = None
    created_at: Time | None = None
    updated_at: Time | None = None
    submitted_at: Time | None = None
    state: str | None = None
    path: str | None = None

    def time(self) -> Time | None:
        return self.updated_at or self.submitted_at or self.created_at


class IssuesPayload(Base):
    issue: Issue


class IssueCommentPayload(Base):
    issue: Issue
    comment: Comment


class PullRequestPayload(Base):
    pull_request: PullRequest


class ReviewPayload(Base):
    pull_request: PullRequest
    review: Comment


class GiteaReview(Incoming):
    """Without an id, a time or an author: the payload's `sender` wrote it."""

    type: str = ""
    content: str | None = None


class GiteaReviewPayload(Base):
    pull_request: PullRequest
    review: GiteaReview


class ReviewCommentPayload(Base):
    pull_request: PullRequest
    comment: Comment


class Deployment(Incoming):
    id: int
    ref: str | None = None
    sha: str | None = None
    task: str | None = None
    environment: str | None = None
    description: str | None = None
    creator: User | None = None
    created_at: Time | None = None
    updated_at: Time | None = None


class DeploymentStatus(Incoming):
    id: int | None = None
    state: str
    description: str | None = None
    environment_url: str | None = None
    log_url: str | None = None
    target_url: str | None = None
    created_at: Time | None = None
    updated_at: Time | None = None


class DeploymentPayload(Base):
    deployment: Deployment


class DeploymentStatusPayload(Base):
    deployment: Deployment
    deployment_status: DeploymentStatus


class Release(Incoming):
    id: int
    tag_name: str = ""
    name: str | None = None
    body: str | None = None
    html_url: str | None = None
    draft: bool = False
    prerelease: bool = False
    target_commitish: str | None = None
    author: User | None = None
    created_at: Time | None = None
    published_at: Time | None = None
    updated_at: Time | None = None


class ReleasePayload(Base):
    release: Release


class Said(Incoming):
    """A commit that is only quoted."""

    message: str = ""


class WorkflowRun(Incoming):
    id: int
    name: str | None = None
    display_title: str | None = None
    run_number: int | None = None
    run_attempt: int = 1
    event: str | None = None
    status: str | None = None
    conclusion: str | None = None
    html_url: str | None = None
    head_branch: str | None = None
    head_sha: str | None = None
    head_commit: Said | None = None
    actor: User | None = None
    created_at: Time | None = None
    updated_at: Time | None = None


class WorkflowRunPayload(Base):
    workflow_run: WorkflowRun
