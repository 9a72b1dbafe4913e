"""A second search for questions that the relevance gate refuses, by the same question in the corpus's own words.

The model must not talk the gate into an answer. What it may do is bounded by numbers that it cannot move, all of them
of the question as it was asked: the gate believed in it at least by `floor`, and the page that the rewriting leads to
was among the nearest. Within these bounds the gate judges the rewriting like any question. So the worst a model can do,
by writing down the title of the nearest page whatever is asked, is what a gate with its threshold at `floor` would do.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from cairn_answerer.gates import enough
from cairn_answerer.ports import Retriever
from cairn_answerer.refine import Refinement
from cairn_shared.api.search import Hit, SearchRequest, SearchResponse
from cairn_shared.errors import CairnError
from cairn_shared.logging import get_logger

log = get_logger(__name__)

RUNBOOK = "runbook"
REFINEMENT = "refinement"
"""What `degraded` names when the model did not say anything in time: the refusal is not kept then."""

Outcome: TypeAlias = Literal["accepted", "rejected", "none", "failed", "hopeless"]


@dataclass(frozen=True)
class RefinedPolicy:
    """The least confidence in the question as asked, and how many of its nearest pages the model may choose among."""

    floor: float = 0.20
    pages: int = 12
    look: int = 30
    """Hits looked at for these pages."""


class Rewriter(Protocol):
    """Puts a question into the words of one of these pages."""

    async def refine(self, question: str, titles: Sequence[str]) -> Refinement: ...


class RefinedRetriever:
    """As `Retriever`, for questions about procedures."""

    def __init__(
        self,
        retriever: Retriever,
        rewriter: Rewriter,
        count: Callable[[Outcome], None],
        policy: RefinedPolicy = RefinedPolicy(),
    ) -> None:
        self._retriever = retriever
        self._rewriter = rewriter
        self._count = count
        self._policy = policy

    async def search(self, request: SearchRequest, timeout: float) -> SearchResponse:
        """What is found for the question; where that is not enough, what its rewriting brings to light.

        `timeout` is for each of the searches.
        """
        first = await self._retriever.search(request, timeout)
        if enough(first) or first.degraded or request.filters.kind not in (None, RUNBOOK):
            return first
        asked = first.gate.runbooks
        if asked is None or asked.confidence < self._policy.floor:
            self._count("hopeless")
            return first
        try:
            return await self._again(request, first, timeout)
        except CairnError as exc:
            log.warning("not searched again", error=exc.detail)
            self._count("failed")
            return _without(first)

    async def _again(self, request: SearchRequest, first: SearchResponse, timeout: float) -> SearchResponse:
        of_runbooks = request.filters.model_copy(update={"kind": RUNBOOK})
        wide = request.model_copy(update={"k": max(request.k, self._policy.look), "filters": of_runbooks})
        near = nearest(await self._retriever.search(wide, timeout), self._policy.pages)
        refinement = await self._rewriter.refine(request.query, list(near.values()))
        if refinement.missing:
            self._count("failed")
            return _without(first)
        if refinement.query is None:
            self._count("none")
            return first
        rewritten = SearchRequest(query=refinement.query, k=request.k, filters=of_runbooks)
        second = await self._retriever.search(rewritten, timeout)
        page = next((hit.document_id for hit in second.results), None)
        if not enough(second) or page not in near:
            self._count("rejected")
            return first
        self._count("accepted")
        return merged(first, second, page, request.k)


def nearest(found: SearchResponse, pages: int) -> dict[uuid.UUID, str]:
    """The titles of the best pages by their documents, best first."""
    titles: dict[uuid.UUID, str] = {}
    for hit in found.results:
        titles.setdefault(hit.document_id, hit.title)
    return dict(list(titles.items())[:pages])


def merged(first: SearchResponse, second: SearchResponse, page: uuid.UUID, k: int) -> SearchResponse:
    """The steps of `page` that the rewriting found, then what the question found; scores never rise."""
    top = max((hit.score for hit in (*first.results, *second.results)), default=0.0)
    own = [hit.model_copy(update={"score": top, "features": {**hit.features, "refined": True}})
           for hit in second.results if hit.document_id == page]  # fmt: skip
    others = [hit for hit in first.results if hit.document_id != page]
    results: list[Hit] = [*own, *others][:k]
    verdict = second.gate.runbooks
    if verdict is not None:  # what a model names is not certain because it names it
        verdict = verdict.model_copy(update={"certain": False})
    gate = first.gate.model_copy(update={"enough": True, "runbooks": verdict})
    return first.model_copy(update={"results": results, "gate": gate})


def _without(first: SearchResponse) -> SearchResponse:
    return first.model_copy(update={"degraded": [*first.degraded, REFINEMENT]})
