"""Commits and dirty marks, the same from every forge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from cairn_gateway.sources import text
from cairn_gateway.sources.documents import bounded_subject, document_event
from cairn_gateway.sources.place import Place
from cairn_gateway.sources.references import references
from cairn_gateway.sources.times import version
from cairn_shared.events import Event, RepoPushed, SourceDocument, make_event


@dataclass(frozen=True)
class CommitFacts:
    """What every forge tells about a commit; `sha` in lower case."""

    sha: str
    message: str
    at: datetime
    author: str | None
    url: str | None
    paths: Sequence[str]


@dataclass(frozen=True)
class Pushed:
    """What moved: a branch from one commit to another."""

    branch: str
    before: str | None
    after: str | None
    forced: bool
    at: datetime


def commit_event(commit: CommitFacts, place: Place) -> Event:
    """A commit as a document. Only what belongs to the commit itself goes in: it is the same on every branch, in a
    redelivery and in a backfill, and so is its event id.
    """
    first, _, rest = commit.message.strip().partition("\n")
    paths = list(dict.fromkeys(commit.paths))
    return document_event(
        "commit",
        SourceDocument(
            title=text.title(first) or f"Commit {commit.sha[:12]}",
            body=text.body(
                rest,
                {
                    "Commit": commit.sha,
                    "Repository": place.prefix,
                    "Author": commit.author,
                    "Date": commit.at.isoformat(),
                },
                {"Changed paths": paths},
            ),
            url=commit.url,
            service=place.service,
            author=commit.author,
            references=references([commit.message]),
            paths=paths,
        ),
        source=place.source,
        source_id=place.subject(f"@{commit.sha}"),
        subject=place.subject(f"@{commit.sha}"),
        version=version(commit.at),
        occurred_at=commit.at,
        accepted_at=place.delivery.received_at,
    )


def pushed_event(name: str, pushed: Pushed, place: Place) -> Event:
    """The dirty mark of the runbook repository declared as `name`: the consumer asks what is there now."""
    return make_event(
        "repo.pushed",
        source=place.source,
        source_id=place.source_id(f"|repo.pushed|{name}"),
        subject=bounded_subject(f"{name}@{pushed.branch}"),
        version=version(pushed.at),
        occurred_at=pushed.at,
        accepted_at=place.delivery.received_at,
        payload=RepoPushed(
            repository=name, branch=pushed.branch, before=pushed.before, after=pushed.after, forced=pushed.forced
        ),
    )
