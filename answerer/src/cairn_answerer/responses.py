"""The shapes that an answer can take, from the best to the last, as pure functions."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from cairn_answerer import choices, excerpts, rendering
from cairn_answerer.errors import Reason
from cairn_answerer.gathering import Gathered
from cairn_answerer.model import ClaimReleased, Passage, Produced, Progress, SourcesFound
from cairn_answerer.writing import Written
from cairn_shared.api.ask import REFUSAL, AskResponse, NearPage, Source

UNAVAILABLE = (
    "The runbook index cannot be asked right now. Ask again in a minute; `cairn status` (on the one-machine stack also "
    "`cairn-local status`) names what is away. Until then read the runbooks where they are kept."
)


NEAREST = 3
"""Runbooks that a refusal names."""


@dataclass(frozen=True)
class Lifetimes:
    """Seconds to keep an answer from runbooks, one with events among its sources, and a refusal."""

    answer: float = 3600.0
    with_events: float = 90.0
    refusal: float = 45.0


@dataclass(frozen=True)
class Basis:
    """What all answers to one request share. `sources` stand for `gathered.passages`, in the same order."""

    gathered: Gathered
    sources: tuple[Source, ...]
    timings: dict[str, float]
    lifetimes: Lifetimes

    def cited(self, step_ids: set[uuid.UUID]) -> list[Source]:
        """The sources, with those marked on which the answer rests."""
        pairs = zip(self.sources, self.gathered.passages, strict=True)
        return [source.model_copy(update={"cited": passage.step_id in step_ids}) for source, passage in pairs]

    def reasons(self, *more: Reason) -> list[Reason]:
        """Why this is less than the best answer."""
        return [*(["embedder_unavailable"] if self.gathered.keyword else []), *more]  # type: ignore[list-item]


def full(basis: Basis, written: Written, used: Sequence[Passage]) -> Produced:
    """What the model chose. `used` is what it was shown."""
    reasons = basis.reasons(*written.lacks)
    response = AskResponse(
        answer=rendering.answer(written.claims),
        mode="keyword" if basis.gathered.keyword else "full",
        degraded=bool(reasons),
        degraded_reason=_joined(reasons),
        claims=written.claims,
        dropped_claims=written.dropped,
        sources=basis.cited({passage.step_id for passage in written.passages}),
        missing_alert=basis.gathered.missing_alert,
        timings=basis.timings,
    )
    events = any(not passage.is_runbook for passage in used)
    ttl = basis.lifetimes.with_events if events else basis.lifetimes.answer
    return Produced(
        response, _dependencies([*used, *written.passages]), ttl if basis.gathered.complete and not reasons else None
    )


def refused(basis: Basis, used: Sequence[Passage] = ()) -> Produced:
    """The refusal. What the model found no answer in stays in sight; nothing of it is cited.

    The nearest runbooks are named, for the engineer to judge: not their steps, which would look like an answer.
    """
    reasons = basis.reasons()
    response = AskResponse(
        answer=REFUSAL,
        mode="refused",
        degraded=bool(reasons),
        degraded_reason=_joined(reasons),
        sources=basis.cited(set()),
        nearest=_pages(basis.gathered.nearest or basis.gathered.passages),
        missing_alert=basis.gathered.missing_alert,
        timings=basis.timings,
    )
    kept = basis.gathered.complete and not reasons
    return Produced(response, _dependencies(used), basis.lifetimes.refusal if kept else None)


def shown(basis: Basis, reason: Reason, *, dropped: int = 0) -> Produced:
    """The cited steps themselves. Never kept: the next request may find the model well."""
    return Produced(
        AskResponse(
            answer=excerpts.render(
                basis.gathered.excerpts, basis.gathered.reported, events_first=basis.gathered.events_first
            ),
            mode="keyword" if basis.gathered.keyword else "excerpts",
            degraded=True,
            degraded_reason=_joined(basis.reasons(reason)),
            dropped_claims=dropped,
            sources=basis.cited(basis.gathered.shown_ids),
            missing_alert=basis.gathered.missing_alert,
            timings=basis.timings,
        )
    )


def choose(basis: Basis, question: str) -> Produced:
    """Which of these runbooks? Nothing is shown as the answer, so nothing is cited."""
    reasons = basis.reasons()
    offered = [choices.choice(steps) for steps in basis.gathered.rivals]
    response = AskResponse(
        answer=choices.render(offered, question),
        mode="choose",
        degraded=bool(reasons),
        degraded_reason=_joined(reasons),
        choices=offered,
        sources=basis.cited(set()),
        missing_alert=basis.gathered.missing_alert,
        timings=basis.timings,
    )
    shown = [step for steps in basis.gathered.rivals for step in steps]
    kept = basis.gathered.complete and not reasons
    return Produced(response, _dependencies(shown), basis.lifetimes.answer if kept else None)


def unavailable(reason: Reason) -> Produced:
    """Nothing can be said, but what to do."""
    return Produced(AskResponse(answer=UNAVAILABLE, mode="unavailable", degraded=True, degraded_reason=reason))


def replay(produced: Produced) -> Sequence[Progress]:
    """A finished answer as the events by which a stream tells it, without the last."""
    response = produced.response
    if not response.sources:
        return []
    return [SourcesFound(tuple(response.sources)), *(ClaimReleased(claim) for claim in response.claims)]


def _pages(passages: Sequence[Passage]) -> list[NearPage]:
    """The first runbooks among `passages`, each with its nearest step: why it is near, in its own words."""
    first = {one.document_id: one for one in reversed(passages) if one.is_runbook}
    ordered = [one for one in passages if first.get(one.document_id) is one]
    return [
        NearPage(
            runbook_id=one.runbook_id,
            title=one.title,
            step=one.number,
            section=one.section,
            why=choices.beginning(one.text),
            path=one.path,
            url=one.url,
        )
        for one in ordered[:NEAREST]
    ]


def _joined(reasons: Sequence[Reason]) -> str | None:
    return ", ".join(reasons) or None


def _dependencies(passages: Sequence[Passage]) -> dict[uuid.UUID, str]:
    return {passage.step_id: passage.content_sha for passage in passages}
