"""A second look at the best: a model that reads query and step together puts them in another order. Off by default.

What was found for certain (an alert, an identifier) stays before the rest, events and runbooks keep their places, and
the gate judges as without it. A reranker that is away or late changes nothing but the mark in `degraded`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cairn_retriever.model import RUNBOOK
from cairn_shared.api.search import MAX_K, Hit, SearchRequest, SearchResponse
from cairn_shared.clock import Clock
from cairn_shared.errors import CairnError
from cairn_shared.logging import get_logger

log = get_logger(__name__)

RERANKER = "reranker"


@dataclass(frozen=True)
class RerankPolicy:
    """How many hits are looked at, seconds for it, and how much of each is read."""

    top: int = 20
    seconds: float = 0.8
    characters: int = 2_000


class Searches(Protocol):
    """A search without the second look."""

    async def search(self, request: SearchRequest) -> SearchResponse: ...


class Reranker(Protocol):
    """Judges passages."""

    async def scores(self, query: str, passages: Sequence[str], seconds: float) -> list[float]:
        """How well each passage answers the query. Raises CairnError when there is no answer in time."""
        ...


class Reranked:
    """A search whose best hits are looked at again."""

    def __init__(self, searches: Searches, reranker: Reranker, clock: Clock, policy: RerankPolicy) -> None:
        self._searches = searches
        self._reranker = reranker
        self._clock = clock
        self._policy = policy

    async def search(self, request: SearchRequest) -> SearchResponse:
        """As `Searcher.search`."""
        more = request.model_copy(update={"k": min(MAX_K, max(request.k, self._policy.top))})
        found = await self._searches.search(more)
        hits, rest = found.results[: self._policy.top], found.results[self._policy.top :]
        if len(hits) < 2:
            return found
        started = self._clock.monotonic()
        passages = [_passage(hit, self._policy.characters) for hit in hits]
        query = request.query[: self._policy.characters]
        try:
            scores = await self._reranker.scores(query, passages, self._policy.seconds)
        except CairnError as exc:
            log.warning("not reranked", error=exc.detail)
            return found.model_copy(
                update={"results": found.results[: request.k], "degraded": [*found.degraded, RERANKER]}
            )
        results = [*reordered(hits, scores), *rest][: request.k]
        took = {"rerank_ms": round((self._clock.monotonic() - started) * 1000, 3)}
        return found.model_copy(update={"results": results, "timings": {**found.timings, **took}})


def reordered(hits: Sequence[Hit], scores: Sequence[float]) -> list[Hit]:
    """`hits` with those of one kind and tier in the order of `scores`, in the places that such hits had."""
    judged = [
        hit.model_copy(update={"features": {**hit.features, "rerank": round(score, 6)}})
        for hit, score in zip(hits, scores, strict=True)
    ]
    best = sorted(range(len(hits)), key=lambda place: (-scores[place], place))
    waiting: dict[tuple[bool, int], list[int]] = {}
    for place in best:
        waiting.setdefault(_group(hits[place]), []).append(place)
    queues = {group: iter(places) for group, places in waiting.items()}
    # Scores stay with the places: they tell the order, and must fall.
    return [judged[next(queues[_group(hit)])].model_copy(update={"score": hit.score}) for hit in hits]


def _group(hit: Hit) -> tuple[bool, int]:
    return hit.kind == RUNBOOK, int(hit.features.get("tier", 0))


def _passage(hit: Hit, characters: int) -> str:
    return f"{hit.title} > {hit.section}\n{hit.text}"[:characters]
