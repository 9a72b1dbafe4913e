"""A push to GitLab."""

from __future__ import annotations

from cairn_gateway.sources.gitlab.payloads import Commit, Push
from cairn_gateway.sources.model import Delivery, RunbookRepositories, Translation
from cairn_gateway.sources.pushes import Cut, Pushed, pushed_event, rest_of
from cairn_shared.documents.commits import CommitFacts, commit_event
from cairn_shared.errors import InvalidInput

_BRANCH = "refs/heads/"
_NOTHING = "0" * 40


def translate_push(push: Push, delivery: Delivery, repositories: RunbookRepositories) -> Translation:
    """One `commit` each (GitLab lists the newest 20), and `repo.pushed` for a declared runbook repository."""
    place = push.place(delivery)
    commits = {commit.id: commit for commit in push.commits or []}
    events = [commit_event(facts(commit), place.home, delivery.received_at) for commit in commits.values()]
    branch = push.ref.removeprefix(_BRANCH) if push.ref.startswith(_BRANCH) else None
    times = [commit.timestamp for commit in commits.values() if commit.timestamp]
    at = max(times, default=delivery.received_at)
    if branch is not None:
        pushed = Pushed(branch, before=push.before, after=push.after, forced=push.after == _NOTHING, at=at)
        events += [pushed_event(name, pushed, place) for name in repositories.named(place.urls, branch)]
    if any(one.place == ("commits",) for one in push.left_out):
        raise InvalidInput("commits: no list of commits that can be read", field="commits")
    total = push.total_commits_count
    if total > len(push.commits or []):
        cut = Cut(
            branch, push.before, push.after, push.project.default_branch, listed=list(commits), total=total, at=at
        )
        rest, note = rest_of(cut, place, repositories.apis)
        if rest is not None:
            return Translation([*events, rest], notes=[note], cut="fetched")
        return Translation(events, ignored=None if events else "the push lists no commits", notes=[note], cut="left")
    if events:
        return Translation(events)
    return Translation(ignored="the push brings no commits")


def facts(commit: Commit) -> CommitFacts:
    """GitLab's commit in our terms."""
    return CommitFacts(
        sha=commit.id,
        message=commit.message,
        at=commit.timestamp,
        author=commit.author.name or commit.author.username,
        url=commit.url,
        paths=[*(commit.added or []), *(commit.modified or []), *(commit.removed or [])],
    )
