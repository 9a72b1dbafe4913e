"""The story of one answer, top to bottom:

    wait (if asked) -> epoch -> cache -> flight -> cache again -> gather -> enough? -> plan -> tell -> keep

Every rung below the best is an answer too: excerpts without a model, keyword search without the embedder, a cached
answer without PostgreSQL, and at last `unavailable` with what to do. Nothing but bad input reaches the client as an
error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from cairn_answerer import cache, freshness, rendering, responses
from cairn_answerer.alerts import label_values
from cairn_answerer.bulkhead import Bulkhead, Room
from cairn_answerer.deadline import Deadline
from cairn_answerer.errors import ModelFailure
from cairn_answerer.flights import Flights, Publish
from cairn_answerer.freshness import Waiting
from cairn_answerer.gathering import Gathered, Gatherer
from cairn_answerer.metrics import Metrics
from cairn_answerer.model import (
    CorpusState,
    Done,
    Produced,
    Progress,
    SourcesFound,
)
from cairn_answerer.ports import Corpus
from cairn_answerer.responses import Basis, Lifetimes
from cairn_answerer.timing import Timings
from cairn_answerer.writing import Writer
from cairn_shared.api.ask import AnswerMode, AskRequest, AskResponse
from cairn_shared.clock import Clock
from cairn_shared.errors import InvalidInput, NotFound, Overloaded, TransientError
from cairn_shared.logging import get_logger

log = get_logger(__name__)


SEARCHES = Room(places=16, queue=32, patience=0.5)


@dataclass(frozen=True)
class Policy:
    """Seconds for a whole answer, to wait for what was just written, to search, and to search in what may be away;
    how many searches there are at once; how long answers are kept.
    """

    deadline: float = 20.0
    wait: float = 2.0
    search: float = 5.0
    search_unknown: float = 1.0
    searches: Room = SEARCHES
    lifetimes: Lifetimes = field(default_factory=Lifetimes)


@dataclass(frozen=True)
class _Look:
    """The corpus as it is (`known`) or was last seen, the question's key in it, and the answer kept under that key."""

    state: CorpusState | None
    known: bool
    key: str
    kept: Produced | None


class Answerer:
    """Answers questions. `writer` is None where no model is configured, which is a supported way to run."""

    def __init__(
        self,
        *,
        gatherer: Gatherer,
        writer: Writer | None,
        corpus: Corpus,
        answers: cache.AnswerCache,
        flights: Flights,
        fingerprints: cache.Fingerprints,
        clock: Clock,
        policy: Policy,
        metrics: Metrics,
        request_id: Callable[[], str | None],
    ) -> None:
        self._gatherer = gatherer
        self._writer = writer
        self._corpus = corpus
        self._answers = answers
        self._flights = flights
        self._fingerprints = fingerprints
        self._clock = clock
        self._policy = policy
        self._metrics = metrics
        self._request_id = request_id
        self._searches = Bulkhead(policy.searches)

    async def ask(self, request: AskRequest, seconds: float | None = None) -> AskResponse:
        """The whole answer, within `seconds` or the deadline.

        Raises:
            InvalidInput: the request is wrong.
            Overloaded: too many questions want to be searched for.
        """
        async with aclosing(self.follow(request, seconds)) as following:
            async for progress in following:
                if isinstance(progress, Done):
                    return progress.produced.response
        raise AssertionError("a flight ended without an answer")

    async def follow(self, request: AskRequest, seconds: float | None = None) -> AsyncGenerator[Progress, None]:
        """The answer as it comes about; `Done` with the whole is always the last.

        Raises:
            InvalidInput: the request is wrong.
            Overloaded: too many questions want to be searched for.
        """
        timings = Timings(self._clock)
        seconds = self._policy.deadline if seconds is None else seconds
        deadline = Deadline.after(self._clock, seconds)
        late = Waiting()
        state: CorpusState | None = None
        try:
            async with asyncio.timeout(seconds):
                within = Deadline.after(self._clock, min(self._policy.wait, deadline.remaining()))
                late = await freshness.wait(self._corpus, request, within)
                look = await self._look(request)
                state = look.state
                timings.mark("cache")
                if look.kept is not None:
                    self._metrics.cache("hit")
                    for progress in responses.replay(look.kept):
                        yield progress
                    yield Done(self._finish(look.kept, state, late, timings))
                    return
                self._metrics.cache("miss" if state else "unknown_epoch")
                key, now = look.key, state if look.known else None
                flight = self._flights.fly(key, lambda publish: self._answer(request, key, now, deadline, publish))
                async with aclosing(flight):
                    async for progress in flight:
                        if isinstance(progress, Done):
                            yield Done(self._finish(progress.produced, now, late, timings))
                        else:
                            yield progress
        except (InvalidInput, NotFound, Overloaded):
            raise
        except TimeoutError:
            yield Done(self._finish(responses.unavailable("deadline"), state, late, timings))
        except Exception:
            log.exception("answering failed")
            yield Done(self._finish(responses.unavailable("internal_error"), state, late, timings))

    async def _look(self, request: AskRequest) -> _Look:
        last = self._answers.last
        tried = None
        if last is not None:
            # Mostly the corpus is as it was a question ago: then it is asked once, about itself and the sources.
            tried = cache.key(request, last, self._fingerprints)
            if not self._flights.flying(tried):
                state, kept = await self._answers.find(tried, last)
                if kept is not None:
                    return _Look(state, True, tried, _as_kept(kept, known=True))
        state, known = await self._state()
        key = cache.key(request, state, self._fingerprints)
        if state is None or self._flights.flying(key) or (known and key == tried):
            return _Look(state, known, key, None)
        _, kept = await self._answers.find(key, state if known else None)
        return _Look(state, known, key, kept and _as_kept(kept, known=known))

    async def _state(self) -> tuple[CorpusState | None, bool]:
        """(the corpus as it is, True), or as it was last seen, False."""
        try:
            state = await self._corpus.state()
        except TransientError as exc:
            log.warning("the corpus cannot be asked", error=exc.detail)
            return await self._answers.recall(), False
        await self._answers.remember(state)
        return state, True

    async def _answer(
        self, request: AskRequest, key: str, state: CorpusState | None, deadline: Deadline, publish: Publish
    ) -> Produced:
        """Work out an answer; the leader of the flight does this once for all who wait."""
        # The flight before may have ended between our look into the cache and our take-off.
        _, kept = await self._answers.find(key, state) if state else (None, None)
        if kept is not None:
            for progress in responses.replay(kept):
                publish(progress)
            return _as_kept(kept, known=True)
        timings = Timings(self._clock)
        try:
            async with self._searches.place(deadline.remaining()):
                with self._metrics.retrieval_seconds.time():
                    # Where PostgreSQL does not answer us it will hardly answer the retriever.
                    most = self._policy.search if state else self._policy.search_unknown
                    gathered = await self._gatherer.gather(request, min(most, deadline.remaining()))
        except Overloaded:
            raise
        except TransientError as exc:
            log.warning("no retrieval", error=exc.detail)
            return responses.unavailable("retriever_unavailable" if state else "postgres_unavailable")
        timings.mark("retrieval")
        produced = await self._from(gathered, request, deadline, publish, timings)
        if gathered.follows:
            produced = replace(produced, response=produced.response.model_copy(update={"follows": True}))
        if state is not None:
            await self._answers.keep(key, produced)
        return produced

    async def _from(
        self, gathered: Gathered, request: AskRequest, deadline: Deadline, publish: Publish, timings: Timings
    ) -> Produced:
        values = label_values(request)
        if self._writer is not None:
            gathered = await self._gatherer.with_named(gathered)
        # With a model nobody knows yet on what the answer will rest.
        cited = gathered.shown_ids if self._writer is None else ()
        found = rendering.sources(gathered.passages, cited, values)
        basis = Basis(gathered, found, timings.spent, self._policy.lifetimes)
        if not gathered.enough:
            return responses.refused(basis)
        if gathered.rivals:
            return responses.choose(basis, request.question)
        publish(SourcesFound(found))
        if self._writer is None:
            return responses.shown(basis, "llm_not_configured")
        passages = self._writer.show(gathered.passages)
        try:
            with self._metrics.llm_seconds.time():
                written = await self._writer.write(
                    gathered.asked,
                    request.alert,
                    passages,
                    gathered.passages,
                    deadline=deadline,
                    publish=publish,
                )
        except ModelFailure as exc:
            if exc.reason in ("circuit_open", "llm_busy", "llm_bad_output"):
                self._metrics.llm_failures.labels(exc.reason).inc()
            return responses.shown(basis, exc.reason, dropped=exc.dropped)
        finally:
            timings.mark("llm")
        used = tuple(item.passage for item in passages)
        return responses.full(basis, written, used) if written.told else responses.refused(basis, used)

    def _finish(self, produced: Produced, state: CorpusState | None, late: Waiting, timings: Timings) -> Produced:
        """What differs from request to request, also where the answer is shared."""
        response = produced.response
        if late.behind and response.mode != "unavailable":
            reasons = [reason for reason in (response.degraded_reason, "index_behind") if reason]
            response = response.model_copy(update={"degraded": True, "degraded_reason": ", ".join(reasons)})
        timings.mark("total")
        self._metrics.requests.labels(response.mode).inc()
        self._metrics.request_seconds.labels(response.mode).observe(timings.total)
        spent = timings.spent if response.mode == "cached" else {**response.timings, **timings.spent}
        return replace(
            produced,
            response=response.model_copy(
                update={
                    "freshness": freshness.receipt(state, late.late),
                    "timings": spent,
                    "request_id": self._request_id(),
                }
            ),
        )


def _as_kept(kept: Produced, *, known: bool) -> Produced:
    """As an answer from the cache is told: where nobody can say whether it still holds, it is marked."""
    mode: AnswerMode = kept.response.mode if kept.response.mode in ("refused", "choose") else "cached"
    marks = {} if known else {"degraded": True, "degraded_reason": "postgres_unavailable"}
    return replace(kept, response=kept.response.model_copy(update={"mode": mode, **marks}))
