"""The indexer: every record of a dead letter topic becomes a letter in MongoDB, whichever broker carried it.

It reads as a consumer group of its own, so that its place in the log lives and dies with the log, and commits what is
stored. A record that comes again changes nothing (`reading`, `changes`), so its place may be lost at any time.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

from cairn_gateway.dlq import changes
from cairn_gateway.dlq.model import Letter
from cairn_gateway.dlq.reading import letter_of, replay_id
from cairn_gateway.dlq.store import MongoLetters
from cairn_gateway.metrics import Metrics
from cairn_shared.clock import Clock
from cairn_shared.errors import TransientError
from cairn_shared.kafka.engine import ConsumerEngine
from cairn_shared.kafka.errors import EngineFailed
from cairn_shared.kafka.records import Record
from cairn_shared.logging import get_logger

log = get_logger(__name__)

AGAIN_AFTER = 5.0
"""Seconds until a consumer that failed is made anew."""


class LetterIndexer:
    """The `BatchHandler` of the dead letter topics."""

    def __init__(self, letters: MongoLetters, clock: Clock, metrics: Metrics) -> None:
        self._letters = letters
        self._clock = clock
        self._metrics = metrics

    async def handle(self, records: Sequence[Record]) -> None:
        """As `cairn_shared.kafka.ports.BatchHandler.handle`."""
        now = self._clock.now()
        seen = [(letter_of(record, now), replay_id(record.headers)) for record in records]
        known = await self._letters.find({letter.id for letter, _ in seen})
        edited = await self._letters.edited_as({letter.event_id for letter, _ in seen if letter.event_id})
        fresh: dict[uuid.UUID, Letter] = {}
        for letter, replay in seen:
            if letter.id in known:
                await self._observe(known[letter.id], letter, replay)
            elif letter.id not in fresh:
                origin = edited.get(letter.event_id) if letter.event_id else None
                fresh[letter.id] = replace(changes.discovered(letter), edited_from=origin)
        await self._letters.add(list(fresh.values()))
        for letter in fresh.values():
            self._metrics.letters.labels(letter.topic, letter.failure.stage, letter.failure.kind).inc()

    async def _observe(self, known: Letter, seen: Letter, replay: uuid.UUID | None) -> None:
        """Tell a letter that is known what is new of it."""
        after = changes.observed(known, seen, replay)
        if after is None:
            return
        if not await self._letters.save(after):
            raise TransientError("a dead letter was changed while it was indexed")  # reads it again
        if known.state == "replaying":
            self._metrics.replays.labels("failed_again").inc()
            log.warning("a replayed letter failed again", letter=str(known.id), reason=seen.failure.message)


async def keep_reading(make_engine: Callable[[], ConsumerEngine], clock: Clock) -> None:
    """Read until cancelled; a consumer that fails is made anew, for the gateway has other things to do."""
    while True:
        try:
            await make_engine().run()
        except EngineFailed as exc:
            log.error("the dead letter topics cannot be read", reason=exc.detail)  # noqa: TRY400 - it says enough
        await clock.sleep(AGAIN_AFTER)
