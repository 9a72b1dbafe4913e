"""From a question to the passages that an answer may rest on."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cairn_answerer import excerpts
from cairn_answerer.conversation import Conversation, Found
from cairn_answerer.excerpts import Excerpts
from cairn_answerer.gates import passes
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
    """`passages`: what is shown, then the other hits as ranked, of the halves of the corpus that have an answer.

    `nearest` are the hits where neither has one.
    """

    passages: tuple[Passage, ...]
    excerpts: Excerpts
    """The best runbook's matching steps in order; empty where only events are an answer."""
    keyword: bool
    """The embedder was away: found by words and identifiers only."""
    complete: bool
    """Nothing optional was missing, so the answer may be cached."""
    reported: tuple[Passage, ...] = ()
    """The events that are an answer, best first."""
    events_first: bool = False
    rivals: tuple[tuple[Passage, ...], ...] = ()
    """The steps of each of the runbooks that fit about as well, where the evidence does not tell them apart."""
    nearest: tuple[Passage, ...] = ()
    missing_alert: str | None = None
    """The request's alert, where no runbook is for it."""
    asked: str = ""
    """The question, with the one before it in front where it follows that."""
    follows: bool = False
    """The question is about the answer before it, and this is from the same runbooks."""

    @property
    def enough(self) -> bool:
        """There is something to answer from."""
        return bool(self.passages)

    @property
    def shown_ids(self) -> set[uuid.UUID]:
        """Of the steps and events that are shown where no model chooses."""
        return self.excerpts.step_ids | {event.step_id for event in self.reported}


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
        chosen = bool(request.filters.runbooks)
        gathered = await self._gathered(found, chosen=chosen)
        if not (chosen or found.follows or gathered.events_first):
            gathered = replace(gathered, rivals=await self._rivals(found.search))
        return replace(
            gathered,
            asked=found.asked,
            follows=found.follows,
            missing_alert=None if chosen or found.follows else missing_alert(request, found.search),
        )

    async def _rivals(self, search: SearchResponse) -> tuple[tuple[Passage, ...], ...]:
        """Every step of the runbooks that fit about as well; none where PostgreSQL is away: one is shown then."""
        ids = search.gate.runbooks.rivals if search.gate.runbooks else []
        try:
            procedures = [tuple(await self._corpus.procedure(one)) for one in ids]
        except TransientError as exc:
            log.warning("runbooks to choose from were not read", error=exc.detail)
            return ()
        there = tuple(steps for steps in procedures if steps)
        return there if len(there) > 1 else ()

    async def _gathered(self, found: Found, *, chosen: bool) -> Gathered:
        """`chosen`: the request names the runbooks to answer from, so there is nothing to judge."""
        search = found.search
        hits = [Passage.of(hit) for hit in search.results]
        passed = [hit for hit in hits if chosen or found.follows or passes(search.gate, hit)]
        best, reported = excerpts.best_document(passed), excerpts.events(passed)
        if not passed:
            return Gathered((), Excerpts(()), _keyword(search), not search.degraded, nearest=tuple(hits))
        own = [hit for hit in passed if best and hit.document_id == best.document_id]
        steps, whole = await self._steps(best, own) if best else ([], True)
        shown = excerpts.procedure(steps)
        events_first = not passed[0].is_runbook
        first = [*reported, *shown.passages] if events_first else [*shown.passages, *reported]
        known = {one.step_id for one in (*first, *own)}
        return Gathered(
            (*first, *(hit for hit in passed if hit.step_id not in known)),
            shown,
            _keyword(search),
            whole,
            reported=reported,
            events_first=events_first,
        )

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


def missing_alert(request: AskRequest, search: SearchResponse) -> str | None:
    """The name of the request's alert, where neither its name nor its `runbook_url` leads to a runbook."""
    name = request.alert.name if request.alert else None
    if not name or search.gate.routed:
        return None
    return None if any(name.casefold() in hit.alerts for hit in search.results) else name


def _keyword(search: SearchResponse) -> bool:
    return "embedder" in search.degraded or search.mode == "keyword"
