"""The use case: a request to ranked steps."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from cairn_retriever import gate
from cairn_retriever.features import Asked
from cairn_retriever.lexical import Bm25, idf, is_code, phrases, selecting, weigh
from cairn_retriever.metrics import Metrics
from cairn_retriever.model import (
    EVENT,
    RUNBOOK,
    Candidate,
    CorpusState,
    Lexicon,
    ParsedQuery,
    Phrase,
    Prepared,
    Ranking,
    WeightedLexeme,
)
from cairn_retriever.policy import GatePolicy, RetrievalPolicy
from cairn_retriever.ports import Hints, Index, QueryEmbedder, QueryVectors, Snapshot
from cairn_retriever.query import clean, parse
from cairn_retriever.ranking import Prefer, Question, rank
from cairn_retriever.rivals import probabilities
from cairn_shared.api.search import SearchFilters, SearchRequest, SearchResponse
from cairn_shared.clock import Clock
from cairn_shared.errors import CairnError, TransientError
from cairn_shared.logging import get_logger

log = get_logger(__name__)

NO_EMBEDDER = "embedder"
OTHER_MODEL = "embedding model"


@dataclass(frozen=True)
class Read:
    """A request as far as it is understood without vectors."""

    query: ParsedQuery
    prepared: Prepared
    runbooks: Lexicon
    events: Lexicon
    lexemes: Sequence[WeightedLexeme]
    phrases: Sequence[Phrase]
    naming: frozenset[str]


class Searcher:
    """Searches an index."""

    def __init__(
        self, index: Index, embedder: QueryEmbedder, clock: Clock, metrics: Metrics, policy: RetrievalPolicy
    ) -> None:
        self._index = index
        self._embedder = embedder
        self._clock = clock
        self._metrics = metrics
        self._policy = policy

    async def search(self, request: SearchRequest) -> SearchResponse:
        """Ranked steps and what the relevance gate saw.

        Raises:
            Unavailable: PostgreSQL cannot be reached. Without the embedder the search answers from words and names.
        """
        watch = _Watch(self._clock)
        query = parse(request.query, request.alert)
        preparing = asyncio.ensure_future(self._read(query, request.filters))
        try:
            vectors, degraded = await self._embed(query, request)
            watch.lap("embed_ms")
            read = await preparing
        finally:
            preparing.cancel()
        watch.lap("prepare_ms")
        async with self._index.snapshot(request.filters, request.k, self._clock.now()) as snapshot:
            if vectors is not None and vectors.fingerprint != snapshot.state.fingerprint:
                vectors, degraded = await self._of_this_corpus(vectors, query, request, snapshot.state)
            candidates = await self._find(snapshot, request, read, vectors)
            watch.lap("candidates_ms")
            names = self._names(candidates, read)
            judge = partial(gate.judge, names=names, policy=self._gate_policy(snapshot.state))
            ranking = self._rank(candidates, request, read, lambda *halves: judge(*halves).first)
            watch.lap("rank_ms")
            hits = await snapshot.hits(ranking.steps)
            state = snapshot.state
        watch.lap("show_ms")
        sources = Counter(source for one in candidates for source in one.sources)
        self._metrics.searched(request, degraded, watch.total() / 1000, sources)
        return SearchResponse(
            results=hits,
            mode=request.mode,
            degraded=degraded,
            gate=judge(ranking.runbooks, ranking.events),
            epoch=state.epoch,
            fingerprint=state.fingerprint,
            timings={**watch.laps, "total_ms": watch.total()},
            explain=self._explain(request, read, sources, ranking, names) if request.explain else None,
        )

    async def _read(self, query: ParsedQuery, filters: SearchFilters) -> Read:
        with_events = filters.kind != RUNBOOK
        prepared = await self._index.prepare(query, events=with_events)
        runbooks = await self._index.lexicon(prepared.state)
        state = prepared.state
        events = Lexicon(max(state.chunks - runbooks.chunks, 1), state.average_length, prepared.event_frequencies)
        holders = prepared.identifier_documents
        limit = self._policy.ranking.naming_limit(runbooks.chunks + events.chunks)
        return Read(
            query,
            prepared,
            runbooks,
            events,
            weigh(prepared, runbooks, events, self._policy.candidates.lexemes),
            phrases(prepared, runbooks, self._policy.candidates),
            frozenset(one for one in query.identifiers if 0 < holders.get(one, 0) <= limit),
        )

    async def _of_this_corpus(
        self, vectors: QueryVectors, query: ParsedQuery, request: SearchRequest, state: CorpusState
    ) -> tuple[QueryVectors | None, list[str]]:
        """Vectors of another model must not be compared with the corpus: who has its model is asked, if anybody has."""
        if state.fingerprint is None:
            return None, []
        again, _ = await self._embed(query, request, state.fingerprint)
        if again is not None:
            return again, []
        log.error("no embedder has the model of the index", embedder=vectors.fingerprint, index=state.fingerprint)
        return None, [OTHER_MODEL]

    async def _embed(
        self, query: ParsedQuery, request: SearchRequest, fingerprint: str | None = None
    ) -> tuple[QueryVectors | None, list[str]]:
        if request.mode == "keyword" or not query.embed_text.strip():
            return None, []
        extra = clean(request.extra_query).strip() if request.extra_query else None
        try:
            return await self._embedder.embed(query.embed_text, extra or None, fingerprint), []
        except TransientError as exc:
            log.warning("searching without vectors", error=exc.detail)
        except CairnError as exc:
            log.warning("the embedder refuses the query", error=exc.detail)
        return None, [NO_EMBEDDER]

    async def _find(
        self, snapshot: Snapshot, request: SearchRequest, read: Read, vectors: QueryVectors | None
    ) -> list[Candidate]:
        policy = self._policy.candidates
        by_words = request.mode != "semantic" or vectors is None
        hints = Hints(
            lexemes=[one.lexeme for one in read.lexemes],
            together=self._together(request, read),
            runbooks=read.runbooks,
            events=read.events,
            runbook_words=selecting(read.lexemes, RUNBOOK, read.runbooks, policy) if by_words else [],
            event_words=selecting(read.lexemes, EVENT, read.events, policy) if by_words else [],
            phrases=read.phrases if by_words else [],
            identifiers=list(read.prepared.identifier_documents),
            routed=[route.document_id for route in read.prepared.routes],
        )
        candidates = await snapshot.candidates(hints, vectors)
        known = {one.content_sha for one in candidates}
        if len(known) < request.k and len(candidates) >= policy.events:
            # Copies of few texts filled every source: look again for what is not a copy of them.
            candidates += await snapshot.candidates(hints, vectors, without=sorted(known))
        return candidates

    def _together(self, request: SearchRequest, read: Read) -> Sequence[str]:
        """What the prototype's formula ranks by: chunks with all of these. None has all words of a long paste."""
        lexemes = read.prepared.lexemes
        return lexemes if request.fusion == "seed" and len(lexemes) <= self._policy.candidates.lexemes else ()

    def _rank(self, candidates: Sequence[Candidate], request: SearchRequest, read: Read, prefer: Prefer) -> Ranking:
        total = max(read.prepared.state.chunks, 1)
        weights = {one: idf(total, n) for one, n in read.prepared.identifier_documents.items()}
        question = Question(
            mode=request.mode,
            fusion=request.fusion,
            k=request.k,
            now=self._clock.now(),
            naming=read.naming,
            identifier_weights=weights,
            routed=frozenset(route.document_id for route in read.prepared.routes),
            rarities=[phrase.rarity for phrase in read.phrases],
            products=frozenset(lexeme for names in read.prepared.products for lexeme in names),
            ignore_age=request.filters.since is not None or request.filters.until is not None,
            asked=Asked(read.query.embed_text, read.lexemes, read.runbooks, read.phrases, weights),
        )
        return rank(candidates, question, self._bm25(read), self._policy, prefer)

    def _bm25(self, read: Read) -> Bm25:
        return Bm25(read.lexemes, read.runbooks, read.events, self._policy.lexical)

    def _gate_policy(self, state: CorpusState) -> GatePolicy:
        return gate.policy_for(state.fingerprint, state.thresholds, self._policy.gate)

    def _names(self, candidates: Sequence[Candidate], read: Read) -> gate.Names:
        routed = {route.document_id for route in read.prepared.routes}
        return gate.Names(
            asked=read.query.identifiers,
            found=sorted(frozenset[str]().union(*(one.identifiers for one in candidates))),
            naming=read.naming,
            joined=read.query.joined,
            code=is_code(read.prepared, read.runbooks, self._policy.ranking.quoting_documents),
            routed=any(one.document_id in routed for one in candidates),
        )

    def _explain(
        self, request: SearchRequest, read: Read, sources: Mapping[str, int], ranking: Ranking, names: gate.Names
    ) -> dict[str, Any]:
        return {
            "fusion": request.fusion,
            "alpha": self._policy.fusion.alpha,
            "embedded": read.query.embed_text,
            "lexemes": [
                {
                    "lexeme": one.lexeme,
                    "asked": one.asked,
                    "runbook_chunks": read.runbooks.frequency(one.lexeme),
                    "event_chunks": read.events.frequency(one.lexeme),
                    "runbook_idf": one.runbook_idf,
                    "event_idf": one.event_idf,
                }
                for one in read.lexemes
                if one.runbook_idf or one.event_idf
            ],
            "identifiers": dict(read.prepared.identifier_documents),
            "naming": sorted(read.naming),
            "certain": ranking.runbooks is not None and names.certain(ranking.runbooks, self._policy.gate),
            "routes": [{"document_id": str(one.document_id), "by": one.by} for one in read.prepared.routes],
            "pages": {str(page): round(share, 6) for page, share in probabilities(ranking.pages).items()},
            "sources": dict(sources),
            "evidence": {
                "runbooks": asdict(ranking.runbooks) if ranking.runbooks else None,
                "events": asdict(ranking.events) if ranking.events else None,
            },
            "runbook_chunks": read.runbooks.chunks,
        }


class _Watch:
    """Laps in milliseconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._start = self._last = clock.monotonic()
        self.laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = self._clock.monotonic()
        self.laps[name] = round((now - self._last) * 1000, 3)
        self._last = now

    def total(self) -> float:
        return round((self._clock.monotonic() - self._start) * 1000, 3)
