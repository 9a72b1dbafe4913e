"""A push: one `commit` each, and `repo.pushed` for a declared runbook repository."""

from __future__ import annotations

from cairn_gateway.sources.github.payloads import Commit, Push
from cairn_gateway.sources.github.place import place_of
from cairn_gateway.sources.model import Delivery, RunbookRepositories, Translation
from cairn_gateway.sources.pushes import Pushed, pushed_event
from cairn_shared.documents.commits import CommitFacts, commit_event

COMMITS_PER_PUSH = 2048
"""GitHub lists at most so many commits in one push."""

_BRANCH = "refs/heads/"


def translate_push(push: Push, delivery: Delivery, repositories: RunbookRepositories) -> Translation:
    """The events of a push. A deleted branch takes no commit back; its runbooks stay until the next sync says more."""
    place = place_of(push.repository, delivery)
    commits = {commit.id: commit for commit in push.commits or []}
    events = [commit_event(facts(commit), place.home, delivery.received_at) for commit in commits.values()]
    branch = push.ref.removeprefix(_BRANCH) if push.ref.startswith(_BRANCH) else None
    if branch is not None:
        head = push.head_commit.timestamp if push.head_commit else delivery.received_at
        pushed = Pushed(
            branch,
            before=push.before,
            after=push.after,
            forced=push.forced or push.deleted,
            at=push.repository.pushed_at or head,
        )
        events += [pushed_event(name, pushed, place) for name in repositories.named(place.urls, branch)]
    notes = []
    if len(push.commits or []) >= COMMITS_PER_PUSH:
        notes.append(
            f"the sender cuts a push at {COMMITS_PER_PUSH} commits; load the others with `cairn backfill github "
            f"{push.repository.full_name}`"
        )
    if events:
        return Translation(events, notes=notes)
    what = "deletes" if push.deleted else "creates" if push.created else "moves"
    return Translation(ignored=f"the push {what} {'a branch' if branch else 'a tag'} and brings no commits")


def facts(commit: Commit) -> CommitFacts:
    """GitHub's commit in our terms."""
    return CommitFacts(
        sha=commit.id,
        message=commit.message,
        at=commit.timestamp,
        author=commit.author.shown() or commit.committer.shown(),
        url=commit.url,
        paths=commit.paths(),
    )
