"""From a question to the passages that an answer may rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cairn_answerer import excerpts
from cairn_answerer.conversation import Conversation, Found
from cairn_answerer.excerpts import Excerpts
from cairn_answerer.gates import enough
from cairn_answerer.model import Passage
from cairn_answerer.named import may_name_others, named_before
from cairn_answerer.ports import Corpus, Retriever
from cairn_shared.api.ask import AskRequest
from cairn_shared.api.search import SearchResponse
from cairn_shared.errors import TransientError
from cairn_shared.logging import get_logger

log = get_logger(__name__)


@dataclass(frozen=True)
class Gathered:
    """`passages`: the best runbook's matching steps in order, then the other hits as ranked.

    `nearest` are the hits where they are not enough to answer from.
    """

    passages: tuple[Passage, ...]
    excerpts: Excerpts
    enough: bool
    keyword: bool
    """The embedder was away: found by words and identifiers only."""
    complete: bool
    """Nothing optional was missing, so the answer may be cached."""
    nearest: tuple[Passage, ...] = ()
    asked: str = ""
    """The question, with the one before it in front where it follows that."""
    follows: bool = False
    """The question is about the answer before it, and this is from the same runbooks."""


class Gatherer:
    """Searches, and reads the steps around the best hit. `plain`: the retriever alone, where `retriever` does more."""

    def __init__(self, retriever: Retriever, corpus: Corpus, plain: Retriever | None = None) -> None:
        self._conversation = Conversation(retriever, plain or retriever, corpus)
        self._corpus = corpus

    async def gather(self, request: AskRequest, seconds: float) -> Gathered:
        """What there is to answer from; the search takes at most `seconds`.

        Raises:
            TransientError: the retriever is away.
            InvalidInput: it refuses the request.
        """
        found = await self._conversation.find(request, seconds)
        return replace(await self._gathered(found), asked=found.asked, follows=found.follows)

    async def _gathered(self, found: Found) -> Gathered:
        search = found.search
        hits = [Passage.of(hit) for hit in search.results]
        if not (enough(search) or found.follows):
            return Gathered((), Excerpts(()), False, _keyword(search), not search.degraded, nearest=tuple(hits))
        best = excerpts.best_document(hits)
        if best is None:
            shown = excerpts.events(hits)
            return Gathered(tuple(hits), shown, True, _keyword(search), True)
        own = [hit for hit in hits if hit.document_id == best.document_id]
        steps, whole = await self._steps(best, own)
        shown = excerpts.procedure(steps)
        others = [hit for hit in hits if hit.document_id != best.document_id]
        return Gathered((*shown.passages, *others), shown, True, _keyword(search), whole)

    async def with_named(self, gathered: Gathered) -> Gathered:
        """With the steps that those gathered name as done before, where they were not gathered themselves."""
        found = list(gathered.passages)
        for document_id in {one.document_id for one in found if one.is_runbook and may_name_others(one, found)}:
            try:
                steps = await self._corpus.procedure(document_id)
            except TransientError as exc:
                log.warning("steps that others name were not read", error=exc.detail)
                return replace(gathered, passages=tuple(found), complete=False)
            known = {one.step_id for one in found}
            own = [one for one in found if one.document_id == document_id]
            named = {other.step_id: other for one in own for other in named_before(one, steps)}
            found.extend(step for step_id, step in named.items() if step_id not in known)
        return replace(gathered, passages=tuple(found))

    async def _steps(self, best: Passage, own: Sequence[Passage]) -> tuple[list[Passage], bool]:
        """All steps of the best runbook, or only those found where PostgreSQL is away."""
        try:
            return excerpts.merge(own, await self._corpus.procedure(best.document_id)), True
        except TransientError as exc:
            log.warning("neighbouring steps not read", error=exc.detail)
            return sorted(own, key=lambda step: step.number), False


def _keyword(search: SearchResponse) -> bool:
    return "embedder" in search.degraded or search.mode == "keyword"
