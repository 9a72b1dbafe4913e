"""The story of one answer, top to bottom:

    wait (if asked) -> epoch -> cache -> flight -> cache again -> gather -> enough? -> model -> checked claims -> keep

Every rung below the best is an answer too: excerpts without a model, keyword search without the embedder, a cached
answer without PostgreSQL, and at last `unavailable` with what to do. Nothing but bad input reaches the client as an
error.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace

from cairn_answerer import cache, excerpts, freshness, rendering
from cairn_answerer.alerts import label_values
from cairn_answerer.deadline import Deadline
from cairn_answerer.errors import ModelFailure, Reason
from cairn_answerer.flights import Flights, Publish
from cairn_answerer.freshness import Waiting
from cairn_answerer.gathering import Gathered, Gatherer
from cairn_answerer.metrics import Metrics
from cairn_answerer.model import (
    ClaimReleased,
    CorpusState,
    Done,
    Passage,
    Produced,
    Progress,
    SourcesFound,
)
from cairn_answerer.ports import Corpus
from cairn_answerer.timing import Timings
from cairn_answerer.writing import Writer, Written
from cairn_shared.api.ask import REFUSAL, AnswerMode, AskRequest, AskResponse
from cairn_shared.clock import Clock
from cairn_shared.errors import InvalidInput, NotFound, TransientError
from cairn_shared.logging import get_logger

log = get_logger(__name__)

UNAVAILABLE = (
    "The runbook index cannot be asked right now. Ask again in a minute; `/health/ready` of the answerer and the "
    "retriever names what is away. Until then read the runbooks where they are kept."
)


@dataclass(frozen=True)
class Policy:
    """Times in seconds. A TTL is for answers from runbooks, with events among the sources, and for refusals."""

    deadline: float = 30.0
    wait: float = 2.0
    ttl: float = 3600.0
    event_ttl: float = 90.0
    refusal_ttl: float = 45.0


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

    async def ask(self, request: AskRequest) -> AskResponse:
        """The whole answer.

        Raises:
            InvalidInput: the request is wrong.
        """
        async for progress in self.follow(request):
            if isinstance(progress, Done):
                return progress.produced.response
        raise AssertionError("a flight ended without an answer")

    async def follow(self, request: AskRequest) -> AsyncIterator[Progress]:
        """The answer as it comes about; `Done` with the whole is always the last.

        Raises:
            InvalidInput: the request is wrong.
        """
        timings = Timings(self._clock)
        deadline = Deadline.after(self._clock, self._policy.deadline)
        late = Waiting()
        state: CorpusState | None = None
        try:
            async with asyncio.timeout(self._policy.deadline):
                within = Deadline.after(self._clock, min(self._policy.wait, deadline.remaining()))
                late = await freshness.wait(self._corpus, request, within)
                state, known = await self._state()
                key = cache.key(request, state, self._fingerprints)
                if state and not self._flights.flying(key) and (found := await self._cached(key, known)):
                    self._metrics.cache("hit")
                    timings.mark("cache")
                    for progress in _replay(found):
                        yield progress
                    yield Done(self._finish(found, state, late, timings))
                    return
                self._metrics.cache("miss" if state else "unknown_epoch")
                timings.mark("cache")
                async for progress in self._flights.fly(
                    key, lambda publish: self._answer(request, key, state if known else None, deadline, publish)
                ):
                    if isinstance(progress, Done):
                        yield Done(self._finish(progress.produced, state if known else None, late, timings))
                    else:
                        yield progress
        except (InvalidInput, NotFound):
            raise
        except TimeoutError:
            yield Done(self._finish(_unavailable("deadline"), state, late, timings))
        except Exception:
            log.exception("answering failed")
            yield Done(self._finish(_unavailable("internal_error"), state, late, timings))

    async def _state(self) -> tuple[CorpusState | None, bool]:
        """(the corpus as it is, True), or as it was last seen, False."""
        try:
            state = await self._corpus.state()
        except TransientError as exc:
            log.warning("the corpus cannot be asked", error=exc.detail)
            return await self._answers.recall(), False
        await self._answers.remember(state)
        return state, True

    async def _cached(self, key: str, known: bool) -> Produced | None:
        found = await self._answers.find(key, check=known)
        if found is None:
            return None
        response = found.response
        mode: AnswerMode = "refused" if response.mode == "refused" else "cached"
        if not known:
            # Nobody can say whether it still holds; better than nothing at 3 a.m., and marked.
            response = response.model_copy(
                update={"mode": mode, "degraded": True, "degraded_reason": "postgres_unavailable"}
            )
        return replace(found, response=response.model_copy(update={"mode": mode}))

    async def _answer(
        self, request: AskRequest, key: str, state: CorpusState | None, deadline: Deadline, publish: Publish
    ) -> Produced:
        """Work out an answer; the leader of the flight does this once for all who wait."""
        # The flight before may have ended between our look into the cache and our take-off.
        if state and (found := await self._cached(key, known=True)):
            for progress in _replay(found):
                publish(progress)
            return found
        timings = Timings(self._clock)
        try:
            with self._metrics.retrieval_seconds.time():
                gathered = await self._gatherer.gather(request, deadline)
        except TransientError as exc:
            log.warning("no retrieval", error=exc.detail)
            return _unavailable("retriever_unavailable" if state else "postgres_unavailable")
        timings.mark("retrieval")
        produced = await self._from(gathered, request, deadline, publish, timings)
        if state is not None:
            await self._answers.keep(key, produced)
        return produced

    async def _from(
        self, gathered: Gathered, request: AskRequest, deadline: Deadline, publish: Publish, timings: Timings
    ) -> Produced:
        reasons: list[Reason] = ["embedder_unavailable"] if gathered.keyword else []
        if not gathered.enough:
            return self._refused(gathered, reasons, (), timings)
        values = label_values(request)
        publish(SourcesFound(rendering.sources(gathered.passages, _ids(gathered.excerpts.passages), values)))
        if self._writer is None:
            return _excerpts(gathered, [*reasons, "llm_not_configured"], values, timings)
        shown = self._writer.show(gathered.passages)
        try:
            with self._metrics.llm_seconds.time():
                written = await self._writer.write(
                    request.question, request.alert, shown, values=values, deadline=deadline, publish=publish
                )
        except ModelFailure as exc:
            timings.mark("llm")
            return _excerpts(gathered, [*reasons, exc.reason], values, timings)
        timings.mark("llm")
        used = tuple(item.passage for item in shown)
        if not written.claims:
            return self._refused(gathered, reasons, used, timings)
        return self._full(
            gathered=gathered, written=written, reasons=reasons, used=used, values=values, timings=timings
        )

    def _full(
        self,
        *,
        gathered: Gathered,
        written: Written,
        reasons: list[Reason],
        used: Sequence[Passage],
        values: dict[str, str],
        timings: Timings,
    ) -> Produced:
        if written.truncated:
            reasons.append("llm_truncated")
        if written.dropped:
            reasons.append("claims_dropped")
        cited = {passage.step_id for claim in written.claims for passage in claim.support}
        response = AskResponse(
            answer=rendering.answer(written.claims),
            mode="keyword" if gathered.keyword else "full",
            degraded=bool(reasons),
            degraded_reason=", ".join(reasons) or None,
            claims=[claim.as_claim() for claim in written.claims],
            dropped_claims=written.dropped,
            sources=list(rendering.sources(gathered.passages, cited, values)),
            timings=timings.spent,
        )
        ttl = self._policy.ttl if all(passage.is_runbook for passage in used) else self._policy.event_ttl
        clean = gathered.complete and not reasons
        return Produced(response, _dependencies(used), ttl if clean else None)

    def _refused(
        self, gathered: Gathered, reasons: list[Reason], used: Sequence[Passage], timings: Timings
    ) -> Produced:
        """Sources stay in sight when the model found no answer in them; nothing of them is cited."""
        response = AskResponse(
            answer=REFUSAL,
            mode="refused",
            degraded=bool(reasons),
            degraded_reason=", ".join(reasons) or None,
            sources=list(rendering.sources(used, (), {})),
            timings=timings.spent,
        )
        clean = gathered.complete and not reasons
        return Produced(response, _dependencies(used), self._policy.refusal_ttl if clean else None)

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


def _excerpts(gathered: Gathered, reasons: Sequence[Reason], values: dict[str, str], timings: Timings) -> Produced:
    shown = gathered.excerpts
    return Produced(
        AskResponse(
            answer=excerpts.render(shown),
            mode="keyword" if gathered.keyword else "excerpts",
            degraded=True,
            degraded_reason=", ".join(reasons),
            sources=list(rendering.sources(gathered.passages, _ids(shown.passages), values)),
            timings=timings.spent,
        )
    )


def _unavailable(reason: Reason) -> Produced:
    return Produced(AskResponse(answer=UNAVAILABLE, mode="unavailable", degraded=True, degraded_reason=reason))


def _replay(produced: Produced) -> Sequence[Progress]:
    """A finished answer as the events by which a stream tells it."""
    response = produced.response
    if not response.sources:
        return []
    return [SourcesFound(tuple(response.sources)), *(ClaimReleased(claim) for claim in response.claims)]


def _ids(passages: Sequence[Passage]) -> set[uuid.UUID]:
    return {passage.step_id for passage in passages}


def _dependencies(passages: Sequence[Passage]) -> dict[uuid.UUID, str]:
    return {passage.step_id: passage.content_sha for passage in passages}
