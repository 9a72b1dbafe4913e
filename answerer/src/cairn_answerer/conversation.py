"""A question that comes after an answer: about what is on the screen, or about something else?

No word tells. "What if that fails?" finds nothing by itself, "is transaction id wraparound dangerous?" finds its page;
so the evidence decides: what the question finds alone, against what it finds in the runbooks that were shown. And where
the question before and this one together find nothing, neither is this one about that: it is refused like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from cairn_answerer.gates import enough
from cairn_answerer.ports import Corpus, Retriever
from cairn_shared.api.ask import AskRequest, Earlier
from cairn_shared.api.search import (
    MAX_QUERY_CHARACTERS,
    MAX_RUNBOOKS,
    HalfVerdict,
    Hit,
    SearchFilters,
    SearchRequest,
    SearchResponse,
)
from cairn_shared.errors import TransientError
from cairn_shared.logging import get_logger

log = get_logger(__name__)

MAX_EARLIER = 2_000
"""Characters of the question before that are searched with."""


@dataclass(frozen=True)
class Found:
    """What was found to answer from, and by which words. `follows`: in what was shown before, so no gate is asked."""

    search: SearchResponse
    asked: str
    follows: bool = False


class Conversation:
    """Searches for a question in the light of what was shown before it.

    `plain` gives the evidence that is compared; `retriever` may do more for a question that stands alone.
    """

    def __init__(self, retriever: Retriever, plain: Retriever, corpus: Corpus) -> None:
        self._retriever = retriever
        self._plain = plain
        self._corpus = corpus

    async def find(self, request: AskRequest, seconds: float) -> Found:
        """The search for `request`; each of the searches that it takes has `seconds`.

        Raises:
            TransientError: the retriever is away.
            InvalidInput: it refuses the request.
        """
        alone = SearchRequest(query=request.question, k=request.k, filters=request.filters, alert=request.alert)
        followed = None
        if request.context is not None and not request.filters.runbooks:  # who names runbooks has said what it is about
            followed = await self._followed(request.context, alone, seconds)
        return followed or Found(await self._retriever.search(alone, seconds), request.question)

    async def _followed(self, earlier: Earlier, alone: SearchRequest, seconds: float) -> Found | None:
        """What is found for the question as one that follows; None where it stands for itself."""
        before = earlier.question[:MAX_EARLIER]
        asked = f"{before}\n{alone.query}"
        joined = alone.model_copy(update={"query": asked[:MAX_QUERY_CHARACTERS]})
        by_itself, together, shown = await asyncio.gather(
            self._plain.search(alone, seconds), self._plain.search(joined, seconds), self._shown(earlier)
        )
        first = leading(by_itself)
        if not believed(together) or (first and not shown):
            return None
        if not shown:
            return Found(together, asked)
        there = alone.model_copy(update={"filters": SearchFilters(runbooks=sorted(shown)), "alert": None})
        if first and first[0].runbook_id not in shown:
            compared = await self._plain.search(there, seconds)
            if stands_alone(by_itself, compared):
                return None
        found = await self._plain.search(there.model_copy(update={"extra_query": before}), seconds)
        return Found(found, asked, follows=True) if found.results else None

    async def _shown(self, earlier: Earlier) -> AbstractSet[str]:
        """The ids of the runbooks on the screen that there still are."""
        ids = {one.runbook_id for one in earlier.cited if one.runbook_id}
        titles = {one.title for one in earlier.cited if one.title and not one.runbook_id}
        if not (ids or titles):
            return set()
        try:
            return set(list(await self._corpus.named(sorted(ids), sorted(titles)))[:MAX_RUNBOOKS])
        except TransientError as exc:
            log.warning("what was shown before is taken as told", error=exc.detail)
            return ids


def leading(search: SearchResponse) -> tuple[Hit, HalfVerdict] | None:
    """The first hit of a half of the corpus that has an answer, with the verdict on that half."""
    for hit in search.results:
        half = search.gate.runbooks if hit.kind == "runbook" else search.gate.events
        if half is not None and half.enough:
            return hit, half
    return None


def believed(together: SearchResponse) -> bool:
    """Whether two questions as one are more likely covered than not. What the first names or quotes is no proof here:
    it would carry any second one through the gate.
    """
    first = leading(together)
    return first is not None and (first[1].cosine is None or first[1].confidence >= 0.5)


CLEARLY = 0.4
"""How much nearer a page must be than those shown, as a part of what these lack to a perfect match.

Over pairs from three public corpora that are no part of Cairn (`tests/eval`, conversations): cosines of another scale
move both ends of the measure alike, so it needs no calibration for each embedding model.
"""


def stands_alone(by_itself: SearchResponse, there: SearchResponse) -> bool:
    """Whether a question that finds another page by itself is about that page: it names what the runbooks shown do not
    hold, an alert leads there, or the page is clearly nearer than they are.
    """
    if by_itself.gate.routed or set(by_itself.gate.identifiers_found) - set(there.gate.identifiers_found):
        return True
    first = leading(by_itself)
    nearest = first[1].cosine if first else None
    shown = there.gate.runbooks.cosine if there.gate.runbooks else None
    if nearest is None or shown is None:  # words alone
        return not enough(there)
    return nearest - shown >= CLEARLY * (1 - shown)
