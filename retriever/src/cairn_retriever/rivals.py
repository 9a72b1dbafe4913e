"""Which runbooks the evidence does not tell apart. Pure.

The fitted model of pages is a conditional logit (`tests/eval/support/eval_rank.py`): its scores are log odds, so that
their softmax is the probability that a page is the right one of those found.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping

from cairn_retriever.policy import ChoicePolicy


def probabilities(scores: Mapping[uuid.UUID, float]) -> dict[uuid.UUID, float]:
    """Of each page, best first, by their log odds; they sum to 1."""
    best = max(scores.values(), default=0.0)
    odds = {document: math.exp(score - best) for document, score in scores.items()}
    total = math.fsum(odds.values())
    order = sorted(scores, key=lambda document: (-scores[document], document.bytes))
    return {document: odds[document] / total for document in order}


def rivals(scores: Mapping[uuid.UUID, float], policy: ChoicePolicy) -> tuple[uuid.UUID, ...]:
    """The pages to choose from, best first, by their log odds; none where one is well ahead."""
    shares = probabilities(scores)
    first = max(shares.values(), default=1.0)
    near = [document for document, share in shares.items() if share >= policy.near * first]
    return tuple(near[: policy.most]) if len(near) > 1 else ()
