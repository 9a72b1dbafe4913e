"""Commits, the same from every forge and by whatever way they come: a webhook, a forge's API, a clone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cairn_shared.documents import text
from cairn_shared.documents.build import document_event
from cairn_shared.documents.references import references
from cairn_shared.documents.times import version
from cairn_shared.events import Event, SourceDocument


@dataclass(frozen=True)
class CommitFacts:
    """What every forge tells about a commit; `sha` in lower case. `at` is None where it could not be read."""

    sha: str
    message: str
    at: datetime | None
    author: str | None
    url: str | None
    paths: Sequence[str]


@dataclass(frozen=True)
class Home:
    """The repository that commits belong to: `prefix` begins their natural keys."""

    source: str
    prefix: str
    service: str

    def subject(self, sha: str) -> str:
        """The natural key of a commit."""
        return f"{self.prefix}@{sha}"


def commit_event(commit: CommitFacts, home: Home, accepted_at: datetime) -> Event:
    """A commit as a document. Only what belongs to the commit itself goes in: it is the same on every branch, in a
    redelivery and in a backfill, and so is its event id.
    """
    first, _, rest = commit.message.strip().partition("\n")
    paths = list(dict.fromkeys(commit.paths))
    at = commit.at.astimezone(UTC) if commit.at else None
    return document_event(
        "commit",
        SourceDocument(
            title=text.title(first) or f"Commit {commit.sha[:12]}",
            body=text.body(
                rest,
                {
                    "Commit": commit.sha,
                    "Repository": home.prefix,
                    "Author": commit.author,
                    # A forge's API tells the same moment in another zone than its webhook.
                    "Date": at.isoformat() if at else None,
                },
                {"Changed paths": paths},
            ),
            url=commit.url,
            service=home.service,
            author=commit.author,
            references=references([commit.message]),
            paths=paths,
        ),
        source=home.source,
        source_id=home.subject(commit.sha),
        subject=home.subject(commit.sha),
        # Whoever knows its time brings the better one.
        version=version(at) if at else 0,
        occurred_at=at or accepted_at,
        accepted_at=accepted_at,
    )
