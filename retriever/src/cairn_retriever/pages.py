"""Runbooks as whole pages: their order by the fitted model, and which of them holds a message word by word. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from cairn_retriever.features import FEATURES, Asked, page_table
from cairn_retriever.model import RUNBOOK, Candidate
from cairn_retriever.page_model import shipped_model
from cairn_retriever.policy import LexicalPolicy, RankingPolicy
from cairn_shared.api.search import Mode


def page_scores(
    candidates: Sequence[Candidate], mode: Mode, asked: Asked, lexical: LexicalPolicy
) -> dict[uuid.UUID, float]:
    """What the fitted model makes of each runbook among `candidates`, as log odds."""
    runbooks = [one for one in candidates if one.kind == RUNBOOK]
    if not runbooks:
        return {}
    usable = mode if any(one.cosine is not None for one in runbooks) else "keyword"
    table = page_table(runbooks, asked, lexical)
    scores = shipped_model().pages[usable].of(FEATURES, table.values)
    return dict(zip(table.documents, map(float, scores), strict=True))


def dealt_anew(scores: Mapping[uuid.UUID, float], relevance: Mapping[uuid.UUID, float]) -> dict[uuid.UUID, float]:
    """The relevance of the runbooks that have a score, dealt out anew in the order of the scores.

    Scores compare the pages of one question, relevance is on one scale with events: the page that the model prefers
    takes the greatest of the runbooks' own.
    """
    order = sorted(scores, key=lambda document: (-scores[document], document.bytes))
    return dict(zip(order, sorted((relevance[one] for one in order), reverse=True), strict=True))


def quoted_runs(
    candidates: Sequence[Candidate], rarities: Sequence[float], policy: RankingPolicy
) -> dict[uuid.UUID, float]:
    """Runbooks that hold phrases of the query which few runbooks hold, with the rarity of the longest run of such."""
    holders: dict[int, set[uuid.UUID]] = {}
    for one in candidates:
        for phrase in one.quoted:
            holders.setdefault(phrase, set()).add(one.document_id)
    greatest: dict[uuid.UUID, float] = {}
    runs: dict[uuid.UUID, float] = {}
    for phrase in sorted(holders):
        before = holders.get(phrase - 1, set())
        for document in holders[phrase] if len(holders[phrase]) <= policy.quoting_documents else ():
            runs[document] = (runs.get(document, 0.0) if document in before else 0.0) + rarities[phrase]
            greatest[document] = max(greatest.get(document, 0.0), runs[document])
    return greatest
