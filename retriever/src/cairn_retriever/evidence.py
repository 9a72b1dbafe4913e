"""What speaks for there being an answer at all: of the first page, and of how it stands among the others. Pure."""

from __future__ import annotations

import numpy as np

from cairn_retriever.features import FEATURES, Array

OF_THE_FIRST = (
    "cosine",
    "cosine_mean",
    "cosine_page",
    "cosine_z",
    "words_page",
    "words_chunk",
    "words_z",
    "coverage",
    "coverage_chunk",
    "title",
    "title_asked",
    "name",
    "section",
    "quoted",
    "identifiers",
)
GATE_FEATURES = (*OF_THE_FIRST, "unknown", "lead", "share", "stands_out", "words_stand_out")
"""
OF_THE_FIRST: features of the page that is ranked first (`features.py`)
unknown: share, by rarity, of the question's words that no page has
lead, share: of its score over the next page's, and of its odds among all
stands_out, words_stand_out: its cosine and coverage above the mean of the others: near pages that lack the answer are
about equally near
"""

_PLACES = [FEATURES.index(name) for name in OF_THE_FIRST]
_COSINE, _COVERAGE = FEATURES.index("cosine"), FEATURES.index("coverage")


def gate_features(values: Array, scores: Array, unknown: float) -> Array:
    """One number for each of `GATE_FEATURES`; `values` has a row for each page, `scores` rank them."""
    first = int(np.argmax(scores))
    own = values[first]
    others = np.delete(np.arange(len(scores)), first)
    odds = np.exp(scores - scores[first])
    lead = float(scores[first] - scores[others].max()) if len(others) else 0.0
    out, words = 0.0, 0.0
    if len(others):
        out = float(own[_COSINE] - values[others, _COSINE].mean())
        words = float(own[_COVERAGE] - values[others, _COVERAGE].mean())
    return np.array([*own[_PLACES], unknown, min(lead, 5.0), 1.0 / odds.sum(), out, words])
