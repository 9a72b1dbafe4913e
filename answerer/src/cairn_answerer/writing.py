"""The model's part: ask, read claims while they are written, check each, ask once more if too much fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cairn_answerer import prompt
from cairn_answerer.bulkhead import Bulkhead, Room
from cairn_answerer.citations import Resolver
from cairn_answerer.cleaning import folded
from cairn_answerer.deadline import Deadline
from cairn_answerer.errors import BadOutput, ModelBusy, RetryableFailure
from cairn_answerer.flights import Publish
from cairn_answerer.metrics import Metrics
from cairn_answerer.model import CheckedClaim, ClaimReleased, DraftClaim, Passage, Restarted, Shown
from cairn_answerer.parsing import MAX_CLAIMS, MAX_OUTPUT, ClaimReader, parse
from cairn_answerer.ports import LanguageModel, Message
from cairn_answerer.verification import Checker
from cairn_shared.api.search import AlertContext
from cairn_shared.errors import Overloaded
from cairn_shared.logging import get_logger

log = get_logger(__name__)


ROOM = Room(places=32, queue=32, patience=1.0)


@dataclass(frozen=True)
class Policy:
    """`max_dropped`: part of the claims that may fail. `rounds`: answers asked for, repairs included. `room`: for how
    many answers the model is at work at once.
    """

    max_dropped: float = 1 / 3
    rounds: int = 2
    reserve: float = 0.5
    """Seconds kept back for everything after the model."""
    room: Room = ROOM


@dataclass(frozen=True)
class Written:
    """What the model's part came to. No claims: it refused."""

    claims: tuple[CheckedClaim, ...]
    dropped: int = 0
    truncated: bool = False


class Writer:
    """Writes checked claims. `choose` picks one character of those given; `nonce` makes an unguessable word."""

    def __init__(
        self,
        model: LanguageModel,
        metrics: Metrics,
        *,
        choose: Callable[[str], str],
        nonce: Callable[[], str],
        policy: Policy,
        budget: int,
    ) -> None:
        self._model = model
        self._metrics = metrics
        self._choose = choose
        self._nonce = nonce
        self._policy = policy
        self._budget = budget
        self._places = Bulkhead(policy.room)

    async def write(
        self,
        question: str,
        alert: AlertContext | None,
        shown: Sequence[Shown],
        *,
        values: Mapping[str, str],
        deadline: Deadline,
        publish: Publish,
    ) -> Written:
        """The claims that passed.

        Raises:
            ModelFailure: there is no model or no room, or nothing it wrote holds; the reason says which.
        """
        try:
            async with self._places.place(deadline.remaining()):
                messages = prompt.compose(question, alert, shown, self._nonce())
                resolver = Resolver(shown)
                desk = _Desk(Checker(resolver, values), publish, self._metrics)
                return await self._written(messages, resolver, desk, deadline)
        except Overloaded as exc:
            raise ModelBusy from exc

    async def _written(self, messages: list[Message], resolver: Resolver, desk: _Desk, deadline: Deadline) -> Written:
        asked: list[Message] = messages
        for left in reversed(range(self._policy.rounds)):
            seconds = deadline.remaining() - self._policy.reserve
            if seconds <= 0:
                raise RetryableFailure("llm_timeout", "no time is left for the model")
            completion = await self._model.complete(asked, desk, seconds=seconds, schema=prompt.SCHEMA)
            try:
                refused = desk.finish(completion.text, resolver)
            except BadOutput:
                if not left:
                    raise
                asked = prompt.again(messages, completion.text, prompt.NOT_JSON)
                continue
            if refused:
                return Written(claims=())
            if desk.claims and desk.dropped <= self._policy.max_dropped * desk.total:
                return Written(tuple(desk.claims), desk.dropped, completion.truncated or desk.broken_off)
            log.info("claims dropped", dropped=desk.dropped, total=desk.total, rounds_left=left)
            asked = prompt.again(messages, completion.text, prompt.unsupported(desk.dropped, desk.total))
        raise BadOutput("too few of the model's claims are supported by what they cite", dropped=desk.dropped)

    def show(self, passages: Sequence[Passage]) -> list[Shown]:
        """The passages as the model will see them, as many as fit."""
        return prompt.show(passages, budget=self._budget, choose=self._choose)


class _Desk:
    """Where claims lie while an answer is written: checked as they come, released once the model has committed."""

    def __init__(self, checker: Checker, publish: Publish, metrics: Metrics) -> None:
        self._checker = checker
        self._publish = publish
        self._metrics = metrics
        self._reader = ClaimReader()
        self._size = 0
        self._released = 0
        self.claims: list[CheckedClaim] = []
        self.total = 0
        self.dropped = 0

    @property
    def broken_off(self) -> bool:
        """The JSON of the claims has no end, whatever the model says of it."""
        return bool(self._reader.claims) and self._reader.unfinished

    def restart(self) -> None:
        """A new attempt: what was released is withdrawn."""
        if self._released:
            self._publish(Restarted())
        self._reader = ClaimReader()
        self._size = self._released = self.total = self.dropped = 0
        self.claims = []

    def feed(self, text: str) -> bool:
        self._size += len(text)
        for draft in self._reader.feed(text):
            self._check(draft)
        if self._reader.answerable:
            self._release()
        return self._size <= MAX_OUTPUT and len(self._reader.claims) < MAX_CLAIMS

    def finish(self, text: str, resolver: Resolver) -> bool:
        """True when the model refuses. Claims in any other form than the JSON asked for are read now.

        Raises:
            BadOutput: it wrote nothing that can be used.
        """
        draft = parse(text, resolver)
        if draft.answerable is False or not draft.claims:
            if self._released:
                self._publish(Restarted())
            return True
        if not self._reader.claims:
            for claim in draft.claims:
                self._check(claim)
        self._release()
        return False

    def _check(self, draft: DraftClaim) -> None:
        verdict = self._checker.check(draft)
        if verdict.claim is None:
            self.total += 1
            self.dropped += 1
            self._metrics.dropped_claims.labels(verdict.fault).inc()
            log.info("claim dropped", fault=verdict.fault, detail=verdict.detail[:120])
        elif folded(verdict.claim.text) not in {folded(claim.text) for claim in self.claims}:
            self.total += 1
            self.claims.append(verdict.claim)

    def _release(self) -> None:
        for claim in self.claims[self._released :]:
            self._publish(ClaimReleased(claim.as_claim()))
        self._released = len(self.claims)
