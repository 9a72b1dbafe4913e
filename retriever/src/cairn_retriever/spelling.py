"""Words of a question that no page has, read as the word that the pages do have: typing errors.

Only the corpus's own words are candidates, so that nobody keeps a dictionary.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from rapidfuzz import process
from rapidfuzz.distance import OSA

SHORTEST = 4
"""Letters of a word that is corrected: shorter ones have too many neighbours."""

_LETTERS = re.compile(r"[a-z]+")


class Spelling:
    """The words of a corpus by their length. `frequencies` are in chunks."""

    def __init__(self, frequencies: Mapping[str, int]) -> None:
        self._frequencies = frequencies
        self._by_length: dict[int, list[str]] = defaultdict(list)
        for word in sorted(frequencies):
            if len(word) >= SHORTEST - 1 and _LETTERS.fullmatch(word):
                self._by_length[len(word)].append(word)

    def nearest(self, word: str) -> tuple[str, float] | None:
        """The known word that `word` most probably is, and how alike they are in [0, 1]; None if there is none.

        One letter may be missing, added, wrong, or swapped with the next (optimal string alignment), and two in words
        of eight letters and more; of equally near words the most frequent.
        """
        if len(word) < SHORTEST or not _LETTERS.fullmatch(word):
            return None
        most = 1 if len(word) < 8 else 2
        found: list[tuple[int, int, str]] = []
        for length in range(len(word) - most, len(word) + most + 1):
            matches = process.extract(
                word, self._by_length.get(length, ()), scorer=OSA.distance, score_cutoff=most, limit=None
            )
            found += [(int(distance), -self._frequencies[other], other) for other, distance, _ in matches]
        if not found:
            return None
        distance, _, other = min(found)
        return other, 1.0 - distance / max(len(word), len(other))
