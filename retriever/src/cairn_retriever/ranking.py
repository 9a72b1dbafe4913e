"""From candidates to ranked steps. Pure: no clock, no I/O, the same input always in the same order."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from cairn_retriever import fusion as fusions
from cairn_retriever.lexical import Bm25
from cairn_retriever.model import RUNBOOK, Candidate, Ranked, Scored
from cairn_retriever.policy import DecayPolicy, RankingPolicy, RetrievalPolicy
from cairn_shared.api.search import Fusion, Mode

TIER_PLAIN, TIER_SOME, TIER_ALL, TIER_ROUTED = range(4)
"""Nothing exact; some of the naming identifiers; all of them; the runbook that the alert routes to."""

SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True)
class Question:
    """What ranking needs to know of the request."""

    mode: Mode
    fusion: Fusion
    k: int
    now: datetime
    naming: frozenset[str]
    """Identifiers of the query that few documents hold."""
    identifier_weights: Mapping[str, float]
    """Rarity of the identifiers of the query that any document holds."""
    routed: frozenset[uuid.UUID]
    bare: bool
    ignore_age: bool
    """The request restricts the time itself."""


def rank(candidates: Sequence[Candidate], question: Question, bm25: Bm25, policy: RetrievalPolicy) -> list[Ranked]:
    """Steps in order, at most `question.k`, duplicates folded."""
    scored = _score(candidates, question, bm25, policy)
    steps = _by_step(scored, question, bm25, policy)
    steps.sort(key=_order)
    steps = _fold(steps)
    if question.bare:
        steps = _in_document_order(steps)
    runbooks = _spread([step for step in steps if step.kind == RUNBOOK], policy.ranking, question.routed)
    events = [step for step in steps if step.kind != RUNBOOK]
    return _present(_share_out(runbooks, events, question.k, policy.ranking))


def _score(candidates: Sequence[Candidate], question: Question, bm25: Bm25, policy: RetrievalPolicy) -> list[Scored]:
    cosines = [_cosine(one) for one in candidates]
    words = [bm25.score(one) for one in candidates]
    if question.fusion == "seed":
        ages = [None if one.kind == RUNBOOK else age_in_days(one.occurred_at, question.now) for one in candidates]
        relevance = fusions.seed(
            cosines if question.mode != "keyword" else [None] * len(cosines),
            [one.seed_rank if question.mode != "semantic" else 0.0 for one in candidates],
            ages,
            policy.fusion,
        )
    elif question.fusion == "rrf" and question.mode == "hybrid":
        relevance = fusions.rrf(cosines, words, policy.fusion.rrf_k)
    else:
        usable = any(cosine is not None for cosine in cosines)
        alpha = {"semantic": 1.0, "keyword": 0.0, "hybrid": policy.fusion.alpha}[question.mode]
        relevance = fusions.tm2c2(cosines, words, alpha if usable else 0.0)
    return [
        Scored(one, word, bm25.coverage([one]), value)
        for one, word, value in zip(candidates, words, relevance, strict=True)
    ]


def _cosine(candidate: Candidate) -> float | None:
    known = [value for value in (candidate.cosine, candidate.extra_cosine) if value is not None]
    return max(known) if known else None


def _by_step(scored: Sequence[Scored], question: Question, bm25: Bm25, policy: RetrievalPolicy) -> list[Ranked]:
    chunks: dict[uuid.UUID, list[Scored]] = {}
    for one in scored:
        chunks.setdefault(one.candidate.step_id, []).append(one)
    best = {step: min(ones, key=lambda one: (-one.relevance, one.candidate.ordinal)) for step, ones in chunks.items()}
    of_document: dict[uuid.UUID, float] = {}
    for one in best.values():
        document = one.candidate.document_id
        of_document[document] = max(of_document.get(document, 0.0), one.relevance)
    return [
        _ranked(best[step], ones, of_document[best[step].candidate.document_id], question, bm25, policy)
        for step, ones in chunks.items()
    ]


def _ranked(
    best: Scored,
    chunks: Sequence[Scored],
    of_document: float,
    question: Question,
    bm25: Bm25,
    policy: RetrievalPolicy,
) -> Ranked:
    candidate = best.candidate
    relevance = best.relevance
    if question.fusion != "seed":
        share = policy.ranking.document_share
        relevance = (1.0 - share) * relevance + share * of_document
    held = frozenset[str]().union(*(one.candidate.identifiers for one in chunks))
    tier = _tier(candidate.document_id, held, question)
    identifier_share = _identifier_share(held, question)
    bonus = policy.ranking.identifier_bonus
    score = relevance * (1.0 - bonus) + bonus * identifier_share if question.identifier_weights else relevance
    age = age_in_days(candidate.occurred_at, question.now)
    factor = 1.0
    if candidate.kind != RUNBOOK and question.fusion != "seed" and tier == TIER_PLAIN and not question.ignore_age:
        factor = decay(candidate.kind, age, policy.decay)
    cosines = [value for one in chunks if (value := one.candidate.cosine) is not None]
    return Ranked(
        step_id=candidate.step_id,
        document_id=candidate.document_id,
        kind=candidate.kind,
        step_number=candidate.step_number,
        content_sha=candidate.content_sha,
        score=score * factor,
        tier=tier,
        features={
            "cosine": max(cosines) if cosines else None,
            "bm25": max(one.bm25 for one in chunks),
            "coverage": bm25.coverage([one.candidate for one in chunks]),
            "identifiers": sorted(held),
            "identifier_share": identifier_share,
            "relevance": relevance,
            "age_days": age,
            "decay": factor,
            "tier": tier,
            "routed": candidate.document_id in question.routed,
            "chunk_id": str(candidate.chunk_id),
        },
    )


def _tier(document: uuid.UUID, held: frozenset[str], question: Question) -> int:
    if document in question.routed:
        return TIER_ROUTED
    named = held & question.naming
    if not named:
        return TIER_PLAIN
    return TIER_ALL if named == question.naming else TIER_SOME


def _identifier_share(held: frozenset[str], question: Question) -> float:
    total = math.fsum(question.identifier_weights.values())
    return math.fsum(question.identifier_weights.get(one, 0.0) for one in held) / total if total else 0.0


def age_in_days(occurred_at: datetime | None, now: datetime) -> float:
    """Days since then, fractions included; 0 for the future, so that a wrong clock gives no advantage."""
    return max(0.0, (now - occurred_at).total_seconds() / SECONDS_PER_DAY) if occurred_at else 0.0


def decay(kind: str, age: float, policy: DecayPolicy) -> float:
    """The factor for an event of `kind` that is `age` days old, in [floor, 1]."""
    half_life = policy.half_lives.get(kind, policy.default_half_life)
    return policy.floor + (1.0 - policy.floor) * math.exp2(-age / half_life)


def _order(step: Ranked) -> tuple[int, float, bytes, int, bytes]:
    return -step.tier, -step.score, step.document_id.bytes, step.step_number, step.step_id.bytes


def _fold(steps: Iterable[Ranked]) -> list[Ranked]:
    """One of each content, the best-placed; equal ones that follow only raise its count."""
    kept: dict[tuple[bool, str], Ranked] = {}
    folded: dict[tuple[bool, str], int] = {}
    for step in steps:
        key = (step.kind == RUNBOOK, step.content_sha)
        if key in kept:
            folded[key] += 1
        else:
            kept[key] = step
            folded[key] = 1
    return [replace(step, features={**step.features, "folded": folded[key]}) for key, step in kept.items()]


def _in_document_order(steps: Sequence[Ranked]) -> list[Ranked]:
    """Routed runbooks from their first step on: nothing but their name was asked for."""
    routed = [step for step in steps if step.tier == TIER_ROUTED]
    first = {document: place for place, document in reversed(list(enumerate(step.document_id for step in routed)))}
    routed.sort(key=lambda step: (first[step.document_id], step.step_number))
    return [*routed, *(step for step in steps if step.tier != TIER_ROUTED)]


def _spread(steps: Sequence[Ranked], policy: RankingPolicy, routed: frozenset[uuid.UUID]) -> list[Ranked]:
    """Other runbooks get their turn before one fills the list; a runbook that is named is shown whole."""
    taken: dict[uuid.UUID, int] = {}
    first: list[Ranked] = []
    later: list[Ranked] = []
    for step in steps:
        taken[step.document_id] = taken.get(step.document_id, 0) + 1
        within = taken[step.document_id] <= policy.steps_per_document or step.document_id in routed
        (first if within else later).append(step)
    return first + later


def _share_out(runbooks: Sequence[Ranked], events: Sequence[Ranked], k: int, policy: RankingPolicy) -> list[Ranked]:
    """`k` places between two lists that are ranked apart, then merged by score.

    Each list has a share that the other cannot take while it has something to show; exact hits come before shares.
    """
    exact_events = sum(1 for event in events if event.tier > TIER_PLAIN)
    for_events = min(len(events), max(round(k * policy.event_share), min(exact_events, k), k - len(runbooks)))
    if not runbooks:
        return list(events[:k])
    if exact_events == 0:
        for_events = min(for_events, max(k - 1, 0))
    chosen_events = list(events[:for_events])
    chosen_runbooks = list(runbooks[: k - len(chosen_events)])
    return _merge(chosen_runbooks, chosen_events)


def _merge(runbooks: list[Ranked], events: list[Ranked]) -> list[Ranked]:
    """Both lists keep their own order; of their heads the better goes first."""
    merged: list[Ranked] = []
    i = j = 0
    while i < len(runbooks) and j < len(events):
        runbook, event = runbooks[i], events[j]
        if (event.tier, event.score) > (runbook.tier, runbook.score):
            merged.append(event)
            j += 1
        else:
            merged.append(runbook)
            i += 1
    return [*merged, *runbooks[i:], *events[j:]]


def _present(steps: Sequence[Ranked]) -> list[Ranked]:
    """Scores that fall with the place, in [0, 1]: a tier is a band of its own above the plain ones."""
    top = max((step.tier for step in steps), default=0)
    presented: list[Ranked] = []
    last = 1.0
    for step in steps:
        last = min(last, (step.tier + min(1.0, max(0.0, step.score))) / (top + 1))
        presented.append(replace(step, score=round(last, 6)))
    return presented
