"""Making one relevance in [0, 1] of two scores that cannot be compared.

`tm2c2` is the convex combination of theoretically min-max normalised scores (Bruch, Gai, Ingber, "An Analysis of Fusion
Functions for Hybrid Retrieval", arXiv:2210.11934): the lower bound is the least that the score can be (-1 for a
cosine, 0 for BM25), so that the worst candidate is not pushed to 0 and a lone one is not lifted to 1 by having no rival
in both. `rrf` is reciprocal rank fusion (Cormack, Clarke, Büttcher, SIGIR 2009). `seed` is the formula of the
first prototype, kept to compare: 0.7 cosine + 0.3 ts_rank_cd, times exp(-0.05 x age in days) for events.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cairn_retriever.policy import FusionPolicy


def tm2c2(cosines: Sequence[float | None], bm25: Sequence[float], alpha: float) -> list[float]:
    """`alpha` x cosine + (1 - alpha) x BM25, both normalised; a missing cosine is the least one."""
    best_cosine = max((cosine for cosine in cosines if cosine is not None), default=-1.0)
    best_bm25 = max(bm25, default=0.0)
    return [
        alpha * _share(-1.0 if cosine is None else cosine, -1.0, best_cosine)
        + (1.0 - alpha) * _share(words, 0.0, best_bm25)
        for cosine, words in zip(cosines, bm25, strict=True)
    ]


def _share(value: float, least: float, most: float) -> float:
    return (value - least) / (most - least) if most > least else 0.0


def rrf(cosines: Sequence[float | None], bm25: Sequence[float], k: int) -> list[float]:
    """Reciprocal ranks in both lists, scaled so that the first of both has 1; what a list did not find adds nothing."""
    by_cosine = _ranks([cosine if cosine is not None else -math.inf for cosine in cosines], -math.inf)
    by_words = _ranks(bm25, 0.0)
    lists = [ranks for ranks in (by_cosine, by_words) if any(ranks)] or [by_words]
    return [math.fsum((k + 1.0) / (k + ranks[i]) for ranks in lists if ranks[i]) / len(lists) for i in range(len(bm25))]


def _ranks(scores: Sequence[float], nothing: float) -> list[int]:
    """Ranks from 1, equal scores sharing the best; 0 where the score is `nothing`."""
    order = sorted({score for score in scores if score > nothing}, reverse=True)
    counts = dict.fromkeys(order, 0)
    for score in scores:
        if score > nothing:
            counts[score] += 1
    rank = 1
    ranks: dict[float, int] = {}
    for score in order:
        ranks[score] = rank
        rank += counts[score]
    return [ranks.get(score, 0) for score in scores]


def seed(
    cosines: Sequence[float | None], ranks: Sequence[float], ages: Sequence[float | None], policy: FusionPolicy
) -> list[float]:
    """The first prototype's scores; `ages` are days, None where nothing decays."""
    return [
        max(0.0, policy.seed_cosine * (cosine or 0.0) + (1.0 - policy.seed_cosine) * min(1.0, rank))
        * (1.0 if age is None else math.exp(-policy.seed_decay_per_day * age))
        for cosine, rank, age in zip(cosines, ranks, ages, strict=True)
    ]
