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
from cairn_shared.api.search import Gate

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
    """Those that some candidate holds."""
    naming: frozenset[str]
    """Those that few documents hold."""
    joined: Sequence[str]
    """CamelCase names."""
    code: bool
    """The query is nothing but a number that few chunks hold: an SQLSTATE, an error code."""
    routed: bool
    """An alert or an address led to a runbook that is among the candidates."""

    def certain(self, halves: Sequence[Evidence], policy: GatePolicy) -> bool:
        """Whether there is an answer whatever the vectors say.

        A runbook that the query leads to; a key that few documents hold (a ticket, an error code, a commit, a setting);
        and, unless the page is about another product than the query: a phrase of the query that it holds word by word,
        or any other name of few (`502`, `MISCONF`) when it holds all the rest that is asked, too.
        """
        named = [one for one in self.found if one in self.naming]
        keys = [one for one in named if one in self.joined or _KEY.fullmatch(one)]
        return (
            self.routed
            or bool(keys)
            or any(
                half.quoted or ((named or self.code) and half.coverage >= policy.whole)
                for half in halves
                if not half.foreign
            )
        )


def judge(runbooks: Evidence | None, events: Evidence | None, names: Names, policy: GatePolicy) -> Gate:
    """What the gate saw, and whether it is enough: certainty, or evidence in either half of the corpus."""
    halves = [half for half in (runbooks, events) if half is not None]
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
        enough=bool(halves) and (names.certain(halves, policy) or believed >= policy.threshold),
    )
