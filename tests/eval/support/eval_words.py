"""Words that the corpora use alike, to word questions anew: near in the embedding, of another stem.

The embedding is the retriever's own, for want of a thesaurus that can be installed: replaced words flatter the vectors
a little. What another corpus says about the same alert (`eval_made.py`, siblings) does not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import httpx
import numpy as np
from eval_corpora import Page
from eval_made import Neighbours

from cairn_shared.api.embedding import EmbedRequest
from cairn_shared.embedder_client import EmbedderClient

LEAST, MOST = 0.55, 0.93
"""Cosines of words that mean about the same; above are spellings of one."""
PAGES = 4
"""A word in fewer pages is a name."""
NEIGHBOURS = 3


async def neighbours(pages: Sequence[Page], http: httpx.AsyncClient) -> Neighbours:
    """The nearest words of each word of `pages`."""
    counts = Counter(word for page in pages for word in set(re.findall(r"[a-z]{4,15}", page.text.casefold())))
    words = sorted(word for word, number in counts.items() if number >= PAGES)
    client = EmbedderClient(http)
    rows = [
        (await client.embed(EmbedRequest(texts=words[start : start + 64], kind="query"))).vectors
        for start in range(0, len(words), 64)
    ]
    vectors = np.concatenate(rows)
    near: dict[str, list[str]] = {}
    for start in range(0, len(words), 1000):
        cosines = vectors[start : start + 1000] @ vectors.T
        for place, row in enumerate(cosines):
            word = words[start + place]
            order = [int(index) for index in np.argsort(-row, kind="stable")[:30] if LEAST <= row[index] <= MOST]
            near[word] = [words[index] for index in order if words[index][:4] != word[:4]][:NEIGHBOURS]
    return lambda word: near.get(word, ())
