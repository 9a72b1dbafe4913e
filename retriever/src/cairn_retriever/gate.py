"""The relevance gate: is there something to answer from? It looks at raw scores, never at fused ones.

A fused score is relative to the best candidate of its query, so that the best of a bad lot has a good one. Judged is
the page that would be shown first: how near it is, how much it holds of what the question is about, and how far it
stands out from the others. Where a page is missing, all its neighbours are about equally near.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cairn_retriever.model import Evidence
from cairn_retriever.policy import GatePolicy
from cairn_shared.api.search import Gate, HalfVerdict

STORED = ("intercept", "cosine", "coverage", "gap", "threshold", "words_alone")


def policy_for(fingerprint: str | None, thresholds: Mapping[str, Any], default: GatePolicy) -> GatePolicy:
    """The numbers stored for the embedding model `fingerprint`, or the defaults where there are none."""
    stored = thresholds.get(fingerprint or "")
    if not isinstance(stored, dict):
        return default
    numbers: dict[str, Any] = {
        name: float(stored[name])
        for name in STORED
        if isinstance(stored.get(name), (int, float)) and not isinstance(stored.get(name), bool)
    }
    return replace(default, **numbers)


def confidence(evidence: Evidence, policy: GatePolicy) -> float:
    """The probability that there is an answer; without vectors a share of the words that are wanted."""
    if evidence.foreign:
        return 0.0
    if evidence.cosine is None:
        return min(1.0, policy.threshold * evidence.coverage / policy.words_alone)
    logit = (
        policy.intercept
        + policy.cosine * evidence.cosine
        + policy.coverage * evidence.coverage
        + policy.gap * evidence.gap
    )
    return 1.0 / (1.0 + math.exp(-logit))


_KEY = re.compile(r"(?=.*\d)(?=.*[a-z]).{5,}|\w+_\w+")


@dataclass(frozen=True)
class Names:
    """What a query names, and what of it was found."""

    asked: Sequence[str]
    """The identifiers of the query."""
    found: Sequence[str]
    """Those that some candidate holds, in either half of the corpus."""
    naming: frozenset[str]
    """Those that few documents hold."""
    joined: Sequence[str]
    """CamelCase names."""
    code: bool
    """The query is nothing but a number that few chunks hold: an SQLSTATE, an error code."""
    routed: bool
    """An alert or an address led to a runbook that is among the candidates."""

    def certain(self, half: Evidence, policy: GatePolicy) -> bool:
        """Whether the first document of this half is an answer whatever the vectors say.

        It holds a key of the query that few documents hold (a ticket, an error code, a commit, a setting); or, unless
        it is about another product than the query: a phrase of the query word by word, or any other name of few
        (`502`, `MISCONF`) and all the rest that is asked, too.
        """
        named = [one for one in half.held if one in self.naming]
        keys = [one for one in named if one in self.joined or _KEY.fullmatch(one)]
        if keys:
            return True
        return not half.foreign and (half.quoted or (bool(named or self.code) and half.coverage >= policy.whole))


def verdict(half: Evidence | None, names: Names, policy: GatePolicy, *, routed: bool = False) -> HalfVerdict | None:
    """Whether one half of the corpus has an answer; None where it has nothing at all."""
    if half is None or half.document_id is None:
        return None
    believed = confidence(half, policy)
    sure = routed or names.certain(half, policy)
    return HalfVerdict(
        document_id=half.document_id,
        confidence=round(believed, 6),
        certain=sure,
        enough=sure or believed >= policy.threshold,
        cosine=half.cosine,
        rivals=[] if sure else list(half.rivals),
    )


def judge(runbooks: Evidence | None, events: Evidence | None, names: Names, policy: GatePolicy) -> Gate:
    """What the gate saw, and whether it is enough: certainty or evidence, in each half of the corpus by itself."""
    halves = [half for half in (runbooks, events) if half is not None]
    of_runbooks = verdict(runbooks, names, policy, routed=names.routed)
    of_events = verdict(events, names, policy)
    cosines = [half.cosine for half in halves if half.cosine is not None]
    coverage = max((half.coverage for half in halves), default=0.0)
    believed = max((confidence(half, policy) for half in halves), default=0.0)
    return Gate(
        best_cosine=max(cosines) if cosines else None,
        best_coverage=round(coverage, 6),
        confidence=round(believed, 6),
        identifiers_asked=list(names.asked),
        identifiers_found=list(names.found),
        routed=names.routed,
        enough=any(one.enough for one in (of_runbooks, of_events) if one),
        runbooks=of_runbooks,
        events=of_events,
    )
