"""The model's part: ask for a plan, read it while it is written, tell what it chooses as soon as that is certain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cairn_answerer import prompt
from cairn_answerer.bulkhead import Bulkhead, Room
from cairn_answerer.deadline import Deadline
from cairn_answerer.errors import BadOutput, ModelBusy, ModelFailure, Reason, RetryableFailure
from cairn_answerer.flights import Publish
from cairn_answerer.leads import Known
from cairn_answerer.metrics import Metrics
from cairn_answerer.model import Chosen, ClaimReleased, Passage, Pick, Shown
from cairn_answerer.plans import MAX_ITEMS, MAX_OUTPUT, PlanReader, parse
from cairn_answerer.ports import LanguageModel, Message
from cairn_answerer.selection import Told, arranged
from cairn_shared.api.ask import Claim
from cairn_shared.api.search import AlertContext
from cairn_shared.errors import Overloaded
from cairn_shared.logging import get_logger

log = get_logger(__name__)


ROOM = Room(places=32, queue=32, patience=1.0)


@dataclass(frozen=True)
class Policy:
    """`rounds`: plans asked for where one holds nothing usable. `reserve`: seconds kept back for everything after the
    model. `room`: for how many answers it is at work at once. `leads`: its own words are shown, marked as such.
    """

    rounds: int = 2
    reserve: float = 0.5
    room: Room = ROOM
    leads: bool = True


@dataclass(frozen=True)
class Written:
    """What the model's part came to. Nothing told: it refused. `lacks`: why this may not be all of its plan."""

    told: tuple[Told, ...] = ()
    dropped: int = 0
    lacks: tuple[Reason, ...] = ()

    @property
    def claims(self) -> list[Claim]:
        """The parts of the answer."""
        return [part.claim for part in self.told]

    @property
    def passages(self) -> list[Passage]:
        """Whose words they are."""
        return [part.passage for part in self.told if part.passage is not None]


class Writer:
    """Writes answers. `choose` picks one character of those given; `nonce` makes an unguessable word."""

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
        pool: Sequence[Passage],
        *,
        deadline: Deadline,
        publish: Publish,
    ) -> Written:
        """What the model chose of `shown`, completed from `pool`.

        Raises:
            ModelFailure: there is no model or no room, or nothing it wrote can be used; the reason says which.
        """
        try:
            async with self._places.place(deadline.remaining()):
                messages = prompt.compose(question, alert, shown, self._nonce(), leads=self._policy.leads)
                desk = _Desk(shown, pool, question, publish, self._metrics, leads=self._policy.leads)
                return await self._written(messages, desk, deadline)
        except Overloaded as exc:
            raise ModelBusy from exc

    async def _written(self, messages: list[Message], desk: _Desk, deadline: Deadline) -> Written:
        asked = messages
        schema = prompt.schema(leads=self._policy.leads)
        for left in reversed(range(self._policy.rounds)):
            seconds = deadline.remaining() - self._policy.reserve
            if seconds <= 0:
                raise RetryableFailure("llm_timeout", "no time is left for the model")
            try:
                completion = await self._model.complete(asked, desk, seconds=seconds, schema=schema)
            except ModelFailure as exc:
                if not desk.usable:
                    raise
                log.info("the model broke off, what it chose is kept", reason=exc.reason)
                return desk.finish((exc.reason,))
            if desk.read_to_end(completion.text):
                return Written()
            if desk.usable:
                return desk.finish(("llm_truncated",) if completion.truncated or desk.broken_off else ())
            log.info("the model chose nothing", rounds_left=left)
            asked = prompt.again(messages, completion.text, prompt.UNUSABLE)
        raise BadOutput("the model chose nothing that it was shown", dropped=desk.dropped)

    def show(self, passages: Sequence[Passage]) -> list[Shown]:
        """The passages as the model will see them, as many as fit."""
        return prompt.show(passages, budget=self._budget, choose=self._choose)


class _Desk:
    """Where a plan lies while it is written. What was told once stays: a later item only adds."""

    def __init__(
        self,
        shown: Sequence[Shown],
        pool: Sequence[Passage],
        question: str,
        publish: Publish,
        metrics: Metrics,
        *,
        leads: bool,
    ) -> None:
        self._shown = {item.key: item for item in shown}
        self._by_marker = {item.passage.marker.strip("[]").lower(): item for item in shown}
        self._pool = pool
        self._known = Known(question, tuple(item.passage.text for item in shown))
        self._publish = publish
        self._metrics = metrics
        self._leads = leads
        self._reader = PlanReader()
        self._size = 0
        self._released: list[Claim] = []
        self._chosen: list[Chosen] = []
        self.dropped = 0

    @property
    def usable(self) -> bool:
        """Something was chosen that exists, and the model has not said that there is no answer."""
        return bool(self._chosen) and self._reader.answerable is not False

    @property
    def broken_off(self) -> bool:
        """The JSON of the plan has no end, whatever the model says of it."""
        return bool(self._reader.picks) and self._reader.unfinished

    def restart(self) -> None:
        """A new attempt. It comes only where nothing was usable (`usable`), so there is nothing to withdraw."""
        self._reader = PlanReader()
        self._size = self.dropped = 0
        self._chosen = []

    def feed(self, text: str) -> bool:
        self._size += len(text)
        picks = self._reader.feed(text)
        for pick in picks:
            self._take(pick)
        if self._reader.answerable and picks:
            self._release()
        return self._size <= MAX_OUTPUT and len(self._reader.picks) < MAX_ITEMS

    def read_to_end(self, text: str) -> bool:
        """True when the model refuses. A plan in any other form than the JSON asked for is read now."""
        try:
            plan = parse(text, self._shown.keys())
        except BadOutput:
            return False
        if plan.answerable is False:
            return True
        if not self._reader.picks:
            for pick in plan.picks:
                self._take(pick)
        return False

    def finish(self, lacks: tuple[Reason, ...]) -> Written:
        """All that was chosen, in order; what of it was not told yet is told now."""
        told, left_out = self._arranged()
        if left_out:
            self._metrics.dropped_claims.labels("lead").inc(left_out)
        self._tell([part.claim for part in told])
        return Written(tuple(told), self.dropped, (*lacks, *(("claims_dropped",) if self.dropped else ())))

    def _take(self, pick: Pick) -> None:
        """What a pick chooses. An id that does not exist costs itself."""
        item = self._shown.get(pick.step) or self._by_marker.get(pick.step)
        if item is None:
            self._drop("unknown step")
            return
        wanted = item.units if pick.units is None else {number - 1 for number in pick.units}
        places = item.units & wanted
        if wanted - places:
            self._drop("unknown unit")
        if places:
            self._chosen.append(Chosen(item.passage, frozenset(places), pick.lead if self._leads else ""))

    def _drop(self, fault: str) -> None:
        self.dropped += 1
        self._metrics.dropped_claims.labels(fault).inc()

    def _arranged(self, *, events: bool = True) -> tuple[list[Told], int]:
        lead = self._reader.lead if self._leads else ""
        chosen = [entry for entry in self._chosen if events or entry.passage.is_runbook]
        return arranged(chosen, self._pool, lead=lead, known=self._known)

    def _release(self) -> None:
        """Runbooks' words at once; events stand at the end of an answer, so they wait for it."""
        told, _ = self._arranged(events=False)
        self._tell([part.claim for part in told])

    def _tell(self, claims: list[Claim]) -> None:
        """The rest of `claims`. Where a plan goes back to an earlier step, that has no place in what was told: the
        whole answer has it.
        """
        if claims[: len(self._released)] != self._released:
            return
        for claim in claims[len(self._released) :]:
            self._publish(ClaimReleased(claim))
        self._released = claims
