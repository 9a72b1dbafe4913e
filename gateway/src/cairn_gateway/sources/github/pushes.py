"""A push: one `commit` each, and `repo.pushed` for a declared runbook repository."""

from __future__ import annotations

from cairn_gateway.sources.github.payloads import Commit, Push
from cairn_gateway.sources.github.place import place_of
from cairn_gateway.sources.model import Delivery, RunbookRepositories, Translation
from cairn_gateway.sources.pushes import Cut, Pushed, pushed_event, rest_of
from cairn_shared.documents.commits import CommitFacts, commit_event
from cairn_shared.errors import InvalidInput

COMMITS_PER_PUSH = 2048
"""GitHub lists at most so many commits in one push, and does not say how many there are. Gitea lists 5 and does."""

_BRANCH = "refs/heads/"


def translate_push(push: Push, delivery: Delivery, repositories: RunbookRepositories) -> Translation:
    """The events of a push. A deleted branch takes no commit back; its runbooks stay until the next sync says more."""
    place = place_of(push.repository, delivery)
    commits = {commit.id: commit for commit in push.commits or []}
    events = [commit_event(facts(commit), place.home, delivery.received_at) for commit in commits.values()]
    branch = push.ref.removeprefix(_BRANCH) if push.ref.startswith(_BRANCH) else None
    head = push.head_commit.timestamp if push.head_commit else None
    at = push.repository.pushed_at or head or delivery.received_at
    if branch is not None:
        forced = push.forced or push.deleted
        pushed = Pushed(branch, before=push.before, after=push.after, forced=forced, at=at)
        events += [pushed_event(name, pushed, place) for name in repositories.named(place.urls, branch)]
    if any(one.place == ("commits",) for one in push.left_out):
        raise InvalidInput("commits: no list of commits that can be read", field="commits")
    listed = len(push.commits or [])
    if listed >= COMMITS_PER_PUSH or push.total_commits > listed:
        default = push.repository.default_branch
        total = push.total_commits or None
        cut = Cut(branch, push.before, push.after, default, listed=list(commits), total=total, at=at)
        rest, note = rest_of(cut, place, repositories.apis)
        if rest is not None:
            return Translation([*events, rest], notes=[note], cut="fetched")
        return Translation(events, ignored=None if events else "the push lists no commits", notes=[note], cut="left")
    if events:
        return Translation(events)
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
