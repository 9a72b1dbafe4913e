"""The places of steps that are ranked: copies folded, room for other runbooks, quotas of runbooks and events."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from cairn_retriever.model import Scored
from cairn_retriever.policy import RankingPolicy

TIER_PLAIN, TIER_SOME, TIER_ALL, TIER_ROUTED = range(4)
"""Nothing exact; some of the naming identifiers; all of them; the runbook that the alert routes to."""


@dataclass(slots=True)
class Step:
    """A step while it finds its place."""

    document_id: uuid.UUID
    is_runbook: bool
    best: Scored
    chunks: list[Scored]
    own: float = 0.0
    relevance: float = 0.0
    held: frozenset[str] = frozenset()
    tier: int = TIER_PLAIN
    score: float = 0.0
    age: float = 0.0
    decay: float = 1.0
    folded: int = 1

    @property
    def number(self) -> int:
        return self.best.candidate.step_number


def fold(steps: Iterable[Step]) -> list[Step]:
    """One of each content, the best-placed; equal ones that follow only raise its count."""
    kept: dict[tuple[bool, str], Step] = {}
    for step in steps:
        first = kept.setdefault((step.is_runbook, step.best.candidate.content_sha), step)
        if first is not step:
            first.folded += 1
    return list(kept.values())


def spread(steps: Sequence[Step], policy: RankingPolicy) -> list[Step]:
    """Other runbooks get their turn before one fills the list; a runbook that is named is shown whole."""
    taken: dict[uuid.UUID, int] = {}
    first: list[Step] = []
    later: list[Step] = []
    for step in steps:
        taken[step.document_id] = taken.get(step.document_id, 0) + 1
        within = taken[step.document_id] <= policy.steps_per_document or step.tier == TIER_ROUTED
        (first if within else later).append(step)
    return first + later


Half = Literal["runbooks", "events"]


def share_out(
    runbooks: Sequence[Step], events: Sequence[Step], k: int, policy: RankingPolicy, first: Half | None = None
) -> list[Step]:
    """`k` places for two lists that are ranked apart: merged by score, or `first` before the other.

    Events take at most their share while there are runbooks to show; events that are named exactly are no part of it.
    Where only events are an answer runbooks get what events get otherwise.
    """
    if first == "events":
        places = min(len(events), max(k - round(k * policy.event_share), k - len(runbooks)))
        return [*events[:places], *runbooks[: k - places]]
    exact = sum(1 for event in events if event.tier > TIER_PLAIN)
    share = max(round(k * policy.event_share), k - len(runbooks))
    if runbooks:
        share = min(share, k - 1)
    places = min(len(events), max(share, min(exact, k)))
    if first == "runbooks":
        return [*runbooks[: k - places], *events[:places]]
    return _merge(runbooks[: k - places], events[:places])


def _merge(runbooks: Sequence[Step], events: Sequence[Step]) -> list[Step]:
    """Both lists keep their own order; of their heads the better goes first."""
    merged: list[Step] = []
    i = j = 0
    while i < len(runbooks) and j < len(events):
        if (events[j].tier, events[j].score) > (runbooks[i].tier, runbooks[i].score):
            merged.append(events[j])
            j += 1
        else:
            merged.append(runbooks[i])
            i += 1
    return [*merged, *runbooks[i:], *events[j:]]
