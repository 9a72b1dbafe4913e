"""What an answer is made of: passages that may be cited, a plan that chooses from them, and what came of a request."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cairn_shared.api.ask import AskResponse, Citation, Claim, Source
from cairn_shared.api.search import Hit

RUNBOOK = "runbook"


@dataclass(frozen=True)
class Passage:
    """One step of a runbook, or one event: the unit that is shown and cited."""

    step_id: uuid.UUID
    document_id: uuid.UUID
    kind: str
    runbook_id: str
    title: str
    number: int
    label: str
    section: str
    text: str
    version: int
    content_sha: str
    score: float = 0.0
    path: str | None = None
    commit: str | None = None
    lines: tuple[int, int] | None = None
    url: str | None = None
    occurred_at: datetime | None = None
    author: str | None = None
    alerts: tuple[str, ...] = ()
    named: bool = False
    """An event that holds a name of the question which few documents hold."""

    @property
    def is_runbook(self) -> bool:
        """Events are reports by anybody who can write a log line; only runbooks are instructions."""
        return self.kind == RUNBOOK

    @property
    def marker(self) -> str:
        """How an answer points here: `[Runbook title, Step N]`, or `[commit: title, date]`."""
        if self.is_runbook:
            return f"[{self.title}, Step {self.number}]"
        day = f", {self.occurred_at.date().isoformat()}" if self.occurred_at else ""
        return f"[{self.kind}: {self.title}{day}]"

    @property
    def citation(self) -> Citation:
        """As it stands in the response."""
        return Citation(
            runbook_id=self.runbook_id,
            title=self.title,
            step=self.number,
            marker=self.marker,
            label=self.label,
            path=self.path,
            lines=list(self.lines) if self.lines else None,
            byline=self.byline,
        )

    @property
    def byline(self) -> str:
        """Of an event: who, when and where."""
        if self.is_runbook:
            return ""
        when = f"{self.occurred_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if self.occurred_at else None
        return ", ".join(part for part in (self.author, when, self.url) if part)

    @classmethod
    def of(cls, hit: Hit) -> Passage:
        """A hit of the retriever."""
        lines = (hit.line_start, hit.line_end) if hit.line_start and hit.line_end else None
        return cls(
            step_id=hit.step_id,
            document_id=hit.document_id,
            kind=hit.kind,
            runbook_id=hit.runbook_id,
            title=hit.title,
            number=hit.step,
            label=hit.label,
            section=hit.section,
            text=hit.text,
            version=hit.version,
            content_sha=hit.content_sha,
            score=hit.score,
            path=hit.path,
            commit=hit.commit,
            lines=lines,
            url=hit.url,
            occurred_at=hit.occurred_at,
            author=hit.author,
            alerts=tuple(hit.alerts),
            named=hit.features.get("tier", 0) > 0,
        )


@dataclass(frozen=True)
class Shown:
    """A passage as the model saw it, under an id that means nothing outside this request."""

    key: str
    passage: Passage
    units: frozenset[int]
    """The places (from 0, in `units_of(passage.text)`) that it may choose; the others were cut off or withheld."""


@dataclass(frozen=True)
class Pick:
    """One item of a plan as the model wrote it: a step by its id, units by their numbers from 1 (None: all)."""

    step: str
    units: tuple[int, ...] | None
    lead: str = ""


@dataclass(frozen=True)
class Plan:
    """All of one output of the model. `answerable` is None where it did not say."""

    answerable: bool | None
    picks: tuple[Pick, ...]
    lead: str = ""


@dataclass(frozen=True)
class Chosen:
    """Places in the units of one passage, and the model's own words before them."""

    passage: Passage
    places: frozenset[int]
    lead: str = ""


@dataclass(frozen=True)
class CorpusState:
    """The index as it was before retrieval."""

    epoch: int
    fingerprint: str | None
    index_time: datetime | None = None
    lag_seconds: float | None = None

    def is_of(self, other: CorpusState) -> bool:
        """The same answers come of both."""
        return (self.epoch, self.fingerprint) == (other.epoch, other.fingerprint)


@dataclass(frozen=True)
class Produced:
    """An answer, and what the cache needs to know about it."""

    response: AskResponse
    dependencies: Mapping[uuid.UUID, str] = field(default_factory=dict)
    """step_id -> content_sha of everything the answer was written from."""
    ttl: float | None = None
    """Seconds to keep it; None: never (degraded)."""


@dataclass(frozen=True)
class SourcesFound:
    """Stream event: the passages that the answer will rest on."""

    sources: tuple[Source, ...]


@dataclass(frozen=True)
class ClaimReleased:
    """Stream event: one more part of the answer is certain. None is ever withdrawn."""

    claim: Claim


@dataclass(frozen=True)
class Done:
    """Stream event: the whole answer. Always the last one."""

    produced: Produced


Progress = SourcesFound | ClaimReleased | Done
