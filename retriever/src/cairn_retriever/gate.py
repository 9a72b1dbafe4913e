"""The relevance gate: is there something to answer from? It looks at raw scores, never at fused ones.

A fused score is relative to the best candidate of its query, so that the best of a bad lot has a good one. Judged is
the page that would be shown first: how near it is, how much it holds of what the question is about, and how far it
stands out from the others. Where a page is missing, all its neighbours are about equally near.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
    if evidence.cosine is None:
        return min(1.0, policy.threshold * evidence.coverage / policy.words_alone)
    logit = (
        policy.intercept
        + policy.cosine * evidence.cosine
        + policy.coverage * evidence.coverage
        + policy.gap * evidence.gap
    )
    return 1.0 / (1.0 + math.exp(-logit))


_KEY = re.compile(r"(?=.*\d)(?=.*[a-z]).{5,}")
"""Identifiers that can only be a key: a ticket, an error code, a commit. Others (`502`, `binary`) are also said of
other things, and count as words."""


def names_exactly(found: Sequence[str], naming: Sequence[str]) -> bool:
    """Whether a key of the query was found that few documents hold."""
    return any(one in naming and _KEY.fullmatch(one) for one in found)


def judge(
    *,
    runbooks: Evidence | None,
    events: Evidence | None,
    asked: Sequence[str],
    found: Sequence[str],
    naming: Sequence[str],
    routed: bool,
    policy: GatePolicy,
) -> Gate:
    """What the gate saw, and whether it is enough.

    Enough is an exact route, a key that few documents hold, or evidence in either half of the corpus.
    """
    halves = [half for half in (runbooks, events) if half is not None]
    cosines = [half.cosine for half in halves if half.cosine is not None]
    believed = max((confidence(half, policy) for half in halves), default=0.0)
    named = names_exactly(found, naming)
    return Gate(
        best_cosine=max(cosines) if cosines else None,
        best_coverage=round(max((half.coverage for half in halves), default=0.0), 6),
        confidence=round(believed, 6),
        identifiers_asked=list(asked),
        identifiers_found=list(found),
        routed=routed,
        enough=bool(halves) and (routed or named or believed >= policy.threshold),
    )
