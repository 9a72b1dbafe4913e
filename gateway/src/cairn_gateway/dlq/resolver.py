"""Resolving: a letter whose event became searchable after all is done with, whoever brought that about.

The same look heals replays that a crash or a broker without a memory swallowed: they are sent once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from cairn_gateway.dlq import changes
from cairn_gateway.dlq.model import Letter
from cairn_gateway.dlq.replay import Sender
from cairn_gateway.dlq.store import MongoLetters
from cairn_gateway.metrics import Metrics
from cairn_gateway.ports import Ledger
from cairn_shared.clock import Clock
from cairn_shared.errors import CairnError, TransientError
from cairn_shared.logging import get_logger

log = get_logger(__name__)


@dataclass(frozen=True)
class ResolvePolicy:
    """Seconds. A replay that was marked but not sent for `unsent` is sent.

    Where the broker's log is not durable (`forgets`) one of which nothing was heard is sent again after `silent`,
    doubled each time up to `longest`.
    """

    interval: float = 0.5
    measured: float = 5.0
    batch: int = 1000
    unsent: float = 15.0
    forgets: bool = False
    silent: float = 30.0
    longest: float = 600.0

    def swallowed(self, letter: Letter, now: datetime) -> bool:
        """Whether the replay of `letter` is to be sent (again)."""
        replay = letter.replay
        if letter.state != "replaying" or replay is None or replay.event_id is not None:
            return False
        if replay.published_at is None:
            return (now - replay.at).total_seconds() > self.unsent
        if not self.forgets:
            return False
        wait = min(self.silent * 2.0 ** min(max(replay.publications - 1, 0), 16), self.longest)
        return (now - replay.published_at).total_seconds() > wait


class Resolver:
    """Asks the index about letters that are not closed; run by the leader."""

    def __init__(
        self,
        letters: MongoLetters,
        index: Ledger,
        *,
        sender: Sender,
        clock: Clock,
        metrics: Metrics,
        policy: ResolvePolicy = ResolvePolicy(),
    ) -> None:
        self._letters = letters
        self._index = index
        self._sender = sender
        self._clock = clock
        self._metrics = metrics
        self._policy = policy

    async def run(self) -> None:
        """Look until cancelled."""
        measured = float("-inf")
        while True:
            looked_at = 0
            try:
                looked_at = await self.look()
                if self._clock.monotonic() - measured >= self._policy.measured:
                    await self._measure()
                    measured = self._clock.monotonic()
            except TransientError as exc:
                log.warning("dead letters cannot be looked at", reason=exc.detail)
            if looked_at < self._policy.batch:
                await self._clock.sleep(self._policy.interval)

    async def look(self) -> int:
        """One batch: resolve what the index knows, send what was swallowed; how many were looked at.

        Raises:
            TransientError: MongoDB, the retriever or Kafka is away.
        """
        due = await self._letters.due_for_check(self._policy.batch)
        if not due:
            return 0
        events = {letter.id: event for letter in due if (event := letter.settling_event) is not None}
        ledger = await self._index.ledger(set(events.values()))
        now = self._clock.now()
        left: list[Letter] = []
        for letter in due:
            entry = ledger.get(events[letter.id]) if letter.id in events else None
            outcome = _outcome(letter, entry.state if entry else None)
            if outcome is None:
                left.append(letter)
            else:
                await self._resolve(letter, outcome, now)
        await self._letters.check_later(left)
        for letter in left:
            if self._policy.swallowed(letter, now):
                await self._send_again(letter)
        return len(due)

    async def _resolve(self, letter: Letter, outcome: str, now: datetime) -> None:
        """Close a letter; one that was changed since it was read is looked at again."""
        if await self._letters.save(changes.resolved(letter, outcome, now)) is not None:
            self._metrics.replays.labels("resolved").inc()

    async def _send_again(self, summary: Letter) -> None:
        letter = await self._letters.get(summary.id)
        if letter.rev != summary.rev:
            return
        log.info("a replay is sent again", letter=str(letter.id))
        try:
            await self._sender.send(letter)
        except TransientError:
            raise
        except CairnError as exc:
            now = self._clock.now()
            await self._letters.save(changes.reopened(letter, by="cairn", at=now, reason=f"not sent: {exc.detail}"))

    async def _measure(self) -> None:
        tally = await self._letters.tally()
        for state in ("open", "replaying", "resolved", "discarded"):
            self._metrics.letter_states.labels(state).set(tally.counts.get(state, 0))
        oldest = tally.oldest_open
        age = (self._clock.now() - oldest).total_seconds() if oldest else 0.0
        self._metrics.oldest_letter.set(max(0.0, age))


def _outcome(letter: Letter, state: str | None) -> str | None:
    """How a letter ends whose event the index says to be in `state`; None: not yet."""
    if state in ("searchable", "superseded"):
        return state
    if state == "dead" and letter.replay is not None and letter.replay.event_id is not None:
        return "edited"  # the mended event died in its turn, and has a letter of its own
    return None
