"""From candidates to ranked steps. Pure: no clock, no I/O, the same input always in the same order."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from cairn_retriever import fusion as fusions
from cairn_retriever.evidence import evidence
from cairn_retriever.features import Asked
from cairn_retriever.lexical import Bm25
from cairn_retriever.model import RUNBOOK, Candidate, Evidence, Ranked, Ranking, Scored
from cairn_retriever.pages import dealt_anew, page_scores, quoted_runs
from cairn_retriever.places import TIER_ALL, TIER_PLAIN, TIER_ROUTED, TIER_SOME, Half, Step, fold, share_out, spread
from cairn_retriever.policy import DecayPolicy, RankingPolicy, RetrievalPolicy
from cairn_retriever.rivals import rivals
from cairn_shared.api.search import Fusion, Mode

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
    rarities: Sequence[float]
    """Of the phrases of the query."""
    products: frozenset[str]
    """Lexemes of the products that the query names."""
    ignore_age: bool
    """The request restricts the time itself."""
    asked: Asked | None = None
    """The words of the request; None: runbooks are ranked by the chosen formula, not by the fitted model."""

    @property
    def learned(self) -> bool:
        """Whether the order of runbooks is the fitted model's."""
        return self.asked is not None and self.fusion == "learned"


Prefer = Callable[[Evidence | None, Evidence | None], Half | None]
"""Which half of the corpus is an answer where the other is none, by the evidence of the runbooks and of the events."""


def no_preference(_runbooks: Evidence | None, _events: Evidence | None) -> Half | None:
    """Both halves are merged by score."""
    return None


def rank(
    candidates: Sequence[Candidate],
    question: Question,
    bm25: Bm25,
    policy: RetrievalPolicy,
    prefer: Prefer = no_preference,
) -> Ranking:
    """Steps in order, at most `question.k`, duplicates folded, and what speaks for there being an answer among them."""
    quoted = quoted_runs(candidates, question.rarities, policy.ranking)
    found = judged = _ordered(candidates, question, quoted, bm25, policy)
    if any(one.extra_cosine is not None for one in candidates):
        # Whoever refines a query neither talks the gate into an answer nor out of one.
        unrefined = [replace(one, extra_cosine=None) for one in candidates]
        judged = _ordered(unrefined, question, quoted, bm25, policy)
    of_runbooks = evidence(judged.runbooks, question.products, quoted, bm25, policy.gate)
    of_events = evidence(judged.events, question.products, quoted, bm25, policy.gate)
    if of_runbooks is not None and judged.runbooks[0].tier == TIER_PLAIN:
        of_runbooks = replace(of_runbooks, rivals=rivals(judged.pages, policy.choice))
    first = prefer(of_runbooks, of_events)
    steps = _present(share_out(found.runbooks, found.events, question.k, policy.ranking, first), question, bm25)
    return Ranking(steps, of_runbooks, of_events, found.pages)


@dataclass(frozen=True, slots=True)
class _Ordered:
    """The steps of runbooks and those of events, each in order."""

    runbooks: list[Step]
    events: list[Step]
    pages: Mapping[uuid.UUID, float]
    """What the fitted model makes of the runbooks, as log odds; empty where another formula ranks."""


def _ordered(
    candidates: Sequence[Candidate],
    question: Question,
    quoted: Mapping[uuid.UUID, float],
    bm25: Bm25,
    policy: RetrievalPolicy,
) -> _Ordered:
    pages: Mapping[uuid.UUID, float] = {}
    if question.asked is not None and question.learned:
        pages = page_scores(candidates, question.mode, question.asked, policy.lexical)
    steps = _by_step(_score(candidates, question, bm25, policy), pages, question, policy)
    if not question.learned:
        _credit_quotes(steps, quoted, policy.ranking)
    steps.sort(key=_order)
    steps = fold(steps)
    runbooks = spread([step for step in steps if step.is_runbook], policy.ranking)
    return _Ordered(runbooks, [step for step in steps if not step.is_runbook], pages)


def _credit_quotes(steps: Sequence[Step], quoted: Mapping[uuid.UUID, float], policy: RankingPolicy) -> None:
    """Who holds most of a message word by word comes before those that are merely about the same.

    It is not behind who holds a name of the query either: every message of a client names a port.
    """
    most = max(quoted.values(), default=0.0)
    if most < policy.quoting_run:
        return
    runbooks = [step for step in steps if step.is_runbook]
    named = max((step.tier for step in runbooks if step.tier < TIER_ROUTED), default=TIER_PLAIN)
    for step in runbooks:
        share = quoted.get(step.document_id, 0.0) / most
        if share == 1.0:
            step.tier = max(step.tier, named)
        step.score = (1.0 - policy.quoting_bonus) * step.score + policy.quoting_bonus * share


def _score(candidates: Sequence[Candidate], question: Question, bm25: Bm25, policy: RetrievalPolicy) -> list[Scored]:
    cosines = [_cosine(one) for one in candidates]
    parts = [bm25.parts(one) for one in candidates]
    words = [math.fsum(one) for one in parts]
    if question.fusion == "seed":
        relevance = fusions.seed(
            cosines if question.mode != "keyword" else [None] * len(cosines),
            [one.seed_rank if question.mode != "semantic" else 0.0 for one in candidates],
            [
                None if one.kind == RUNBOOK else max(0.0, age_in_days(one.occurred_at, question.now))
                for one in candidates
            ],
            policy.fusion,
        )
    else:
        relevance = _fused(cosines, words, question, policy)
    return [Scored(*fields) for fields in zip(candidates, cosines, parts, words, relevance, strict=True)]


def _cosine(candidate: Candidate) -> float | None:
    known = [value for value in (candidate.cosine, candidate.extra_cosine) if value is not None]
    return max(known) if known else None


def _fused(
    cosines: Sequence[float | None], words: Sequence[float], question: Question, policy: RetrievalPolicy
) -> list[float]:
    if question.fusion == "rrf" and question.mode == "hybrid":
        return fusions.rrf(cosines, words, policy.fusion.rrf_k)
    usable = any(cosine is not None for cosine in cosines)
    alpha = {"semantic": 1.0, "keyword": 0.0, "hybrid": policy.fusion.alpha}[question.mode]
    return fusions.tm2c2(cosines, words, alpha if usable else 0.0)


def _by_step(
    scored: Sequence[Scored], pages: Mapping[uuid.UUID, float], question: Question, policy: RetrievalPolicy
) -> list[Step]:
    steps: dict[uuid.UUID, Step] = {}
    documents: dict[uuid.UUID, _Document] = {}
    for one in scored:
        candidate = one.candidate
        step = steps.get(candidate.step_id)
        if step is None:
            steps[candidate.step_id] = Step(candidate.document_id, candidate.kind == RUNBOOK, one, [one])
        else:
            step.chunks.append(one)
            if (-one.relevance, candidate.ordinal) < (-step.best.relevance, step.best.candidate.ordinal):
                step.best = one
        documents.setdefault(candidate.document_id, _Document()).add(one)
    if question.fusion != "seed":
        _relate(list(steps.values()), documents, pages, question, policy)
    for step in steps.values():
        _finish(step, documents[step.document_id], question, policy)
    return list(steps.values())


@dataclass(slots=True)
class _Document:
    """What the chunks of one document say together."""

    cosine: float | None = None
    words: list[float] = field(default_factory=list)
    held: set[str] = field(default_factory=set)
    best_chunk: float = 0.0
    best_step: float = 0.0

    @property
    def bm25(self) -> float:
        """Each word counts where it counts most: a question's words are seldom all in one section."""
        return math.fsum(self.words)

    def add(self, one: Scored) -> None:
        if one.cosine is not None:
            self.cosine = one.cosine if self.cosine is None else max(self.cosine, one.cosine)
        self.words = list(map(max, self.words, one.words)) if self.words else list(one.words)
        self.best_chunk = max(self.best_chunk, one.relevance)
        self.held |= one.candidate.identifiers


def _relate(
    steps: Sequence[Step],
    documents: Mapping[uuid.UUID, _Document],
    pages: Mapping[uuid.UUID, float],
    question: Question,
    policy: RetrievalPolicy,
) -> None:
    """Documents are ranked by all that they say, steps by how far they are behind the best step of their document.

    A page often has the symptom's words in one section and its meaning in another, and the step to take in a third.
    """
    order = list(documents)
    if policy.ranking.by_document:
        cosines, words = [documents[one].cosine for one in order], [documents[one].bm25 for one in order]
        of_document = dict(zip(order, _fused(cosines, words, question, policy), strict=True))
    else:
        of_document = {one: documents[one].best_chunk for one in order}
    of_document |= dealt_anew(pages, of_document)
    for step in steps:
        step.own = _own(step, policy.ranking)
        document = documents[step.document_id]
        document.best_step = max(document.best_step, step.own)
    for step in steps:
        behind = documents[step.document_id].best_step - step.own
        step.relevance = of_document[step.document_id] - policy.ranking.step_gap * behind


def _own(step: Step, policy: RankingPolicy) -> float:
    """A step by itself: what only tells comes after what says what to do, later steps after earlier ones."""
    own = step.best.relevance
    if not step.is_runbook:
        return own
    heading = step.best.candidate.section.rpartition(" > ")[2].strip().casefold()
    if heading in policy.telling_sections:
        own *= policy.telling_factor
    return max(0.0, own - policy.later_step * min(step.number - 1, policy.later_steps))


def _finish(step: Step, document: _Document, question: Question, policy: RetrievalPolicy) -> None:
    """The score of a step from its relevance, its identifiers and its age."""
    prototype = question.fusion == "seed"
    if prototype:
        step.relevance = step.best.relevance
    if question.identifier_weights:
        step.held = step.best.candidate.identifiers.union(*(one.candidate.identifiers for one in step.chunks))
    step.tier = _tier(step, document, question)
    step.score = step.relevance
    if question.identifier_weights and not prototype and not (step.is_runbook and question.learned):
        bonus = policy.ranking.identifier_bonus
        step.score = (1.0 - bonus) * step.score + bonus * _identifier_share(step.held, question)
    if not step.is_runbook:
        step.age = age_in_days(step.best.candidate.occurred_at, question.now)
        if step.tier == TIER_PLAIN and not prototype and not question.ignore_age:
            step.decay = decay(step.best.candidate.kind, step.age, policy.decay)
            step.score *= step.decay


def _tier(step: Step, document: _Document, question: Question) -> int:
    """A runbook is named by holding all the naming identifiers, in whatever steps; an event by any of them."""
    if step.document_id in question.routed:
        return TIER_ROUTED
    if step.is_runbook:
        return TIER_ALL if question.naming and question.naming <= document.held else TIER_PLAIN
    named = step.held & question.naming
    if not named:
        return TIER_PLAIN
    return TIER_ALL if named == question.naming else TIER_SOME


def _identifier_share(held: frozenset[str], question: Question) -> float:
    total = math.fsum(question.identifier_weights.values())
    return math.fsum(question.identifier_weights.get(one, 0.0) for one in held) / total if total else 0.0


def age_in_days(occurred_at: datetime | None, now: datetime) -> float:
    """Days since then, fractions included; below 0 for what is yet to come, 0 where no time is known."""
    return (now - occurred_at).total_seconds() / SECONDS_PER_DAY if occurred_at else 0.0


def decay(kind: str, age: float, policy: DecayPolicy) -> float:
    """The factor for an event of `kind` that is `age` days old, in [1 - most, 1]: a wrong clock gives no advantage."""
    if age < -policy.ahead_days:
        return 1.0 - policy.most
    half_life = policy.half_lives.get(kind, policy.default_half_life)
    return 1.0 - policy.most * (1.0 - math.exp2(-max(age, 0.0) / half_life))


def _order(step: Step) -> tuple[int, float, bytes, int, bytes]:
    candidate = step.best.candidate
    return -step.tier, -step.score, candidate.document_id.bytes, candidate.step_number, candidate.step_id.bytes


def _present(steps: Sequence[Step], question: Question, bm25: Bm25) -> list[Ranked]:
    """Scores that fall with the place, in [0, 1]: a tier is a band of its own above the plain ones.

    Where one half of the corpus goes before the other, the score of a step is no more than that of the one before it.
    """
    top = max((step.tier for step in steps), default=0)
    presented: list[Ranked] = []
    last = 1.0
    for step in steps:
        last = min(last, (step.tier + min(1.0, max(0.0, step.score))) / (top + 1))
        presented.append(_presented(step, round(last, 6), question, bm25))
    return presented


def _presented(step: Step, score: float, question: Question, bm25: Bm25) -> Ranked:
    candidate = step.best.candidate
    cosines = [value for one in step.chunks if (value := one.candidate.cosine) is not None]
    return Ranked(
        step_id=candidate.step_id,
        document_id=candidate.document_id,
        kind=candidate.kind,
        step_number=candidate.step_number,
        content_sha=candidate.content_sha,
        score=score,
        tier=step.tier,
        features={
            "cosine": max(cosines) if cosines else None,
            "bm25": max(one.bm25 for one in step.chunks),
            "coverage": bm25.coverage([one.candidate for one in step.chunks]),
            "identifiers": sorted(step.held),
            "identifier_share": _identifier_share(step.held, question),
            "own": step.own,
            "relevance": step.relevance,
            "age_days": step.age,
            "decay": step.decay,
            "tier": step.tier,
            "routed": step.tier == TIER_ROUTED,
            "folded": step.folded,
            "chunk_id": str(candidate.chunk_id),
            "sources": sorted({source for one in step.chunks for source in one.candidate.sources}),
        },
    )
