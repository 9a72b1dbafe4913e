"""The relevance gate: is there something to answer from? It looks at raw scores, never at fused ones.

A fused score is relative to the best candidate of its query, so that the best of a bad lot has a good one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cairn_retriever.policy import GatePolicy
from cairn_shared.api.search import Gate


def policy_for(fingerprint: str | None, thresholds: Mapping[str, Any], default: GatePolicy) -> GatePolicy:
    """The thresholds stored for the embedding model `fingerprint`, or the defaults where there are none."""
    stored = thresholds.get(fingerprint or "")
    if not isinstance(stored, dict):
        return default
    numbers = {
        name: float(stored[name])
        for name in GatePolicy.__dataclass_fields__
        if isinstance(stored.get(name), (int, float)) and not isinstance(stored.get(name), bool)
    }
    return replace(default, **numbers)


def judge(
    *,
    best_cosine: float | None,
    best_coverage: float,
    asked: Sequence[str],
    found: Sequence[str],
    naming: Sequence[str],
    routed: bool,
    results: int,
    policy: GatePolicy,
) -> Gate:
    """What the gate saw, and whether it is enough.

    Enough is an exact route, an identifier that names few documents, or a text near enough in meaning or in words.
    """
    near = best_cosine is not None and best_cosine >= policy.cosine
    worded = best_coverage >= policy.coverage
    named = any(identifier in naming for identifier in found)
    return Gate(
        best_cosine=best_cosine,
        best_coverage=round(best_coverage, 6),
        identifiers_asked=list(asked),
        identifiers_found=list(found),
        routed=routed,
        enough=results > 0 and (routed or named or near or worded),
    )
