"""How often words occur among the runbooks: read whole, kept, and read again when the runbooks changed.

A reading takes 150 ms for 5,000 chunks. While runbooks change all the time (a repository is synced) searches go on
with the last one, which is a few seconds old at most, and do not wait for the next.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cairn_retriever.metrics import Metrics
from cairn_retriever.model import Lexicon
from cairn_retriever.spelling import Spelling
from cairn_shared.clock import Clock
from cairn_shared.errors import CairnError
from cairn_shared.logging import get_logger
from cairn_shared.postgres import translate

if TYPE_CHECKING:
    from cairn_shared.postgres import Pool

log = get_logger(__name__)

WORDS = "SELECT word, ndoc FROM ts_stat('SELECT tsv FROM chunks WHERE kind = ''runbook''')"
SIZE = "SELECT count(*) AS chunks, coalesce(avg(length(tsv)), 0) AS average FROM chunks WHERE kind = 'runbook'"

WAITING = 5.0
"""Times the greatest age that a reading may have while the next is under way; for an older one that is waited for."""


@dataclass(frozen=True)
class Reading:
    """What was read when the corpus was at `epoch`, or after it."""

    epoch: int
    at: float
    lexicon: Lexicon


class RunbookLexicon:
    """`max_age`: seconds that a reading may be behind a change of the runbooks before the next one begins."""

    def __init__(self, pool: Pool, clock: Clock, metrics: Metrics, max_age: float) -> None:
        self._pool = pool
        self._clock = clock
        self._metrics = metrics
        self._max_age = max_age
        self._known: Reading | None = None
        self._next: asyncio.Task[Reading] | None = None

    async def of(self, epoch: int) -> Lexicon:
        """The frequencies at `epoch` of the corpus, or a little before.

        Raises:
            Unavailable: PostgreSQL cannot be asked, and what is known is too old.
        """
        while not self._fits(epoch, self._max_age):
            if self._next is None:
                self._next = asyncio.create_task(self._read(epoch))
                self._next.add_done_callback(self._read_is_over)
            if self._fits(epoch, WAITING * self._max_age):
                break
            # Whoever leaves meanwhile, the others need it.
            reading = await asyncio.shield(self._next)
            if reading.epoch == epoch:
                return reading.lexicon
        assert self._known is not None
        return self._known.lexicon

    def _fits(self, epoch: int, age: float) -> bool:
        known = self._known
        return known is not None and (known.epoch == epoch or self._clock.monotonic() - known.at < age)

    async def _read(self, epoch: int) -> Reading:
        started = self._clock.monotonic()
        try:
            async with self._pool.acquire() as connection:
                size = await connection.fetchrow(SIZE)
                rows = await connection.fetch(WORDS)
        except Exception as exc:
            raise translate(exc) from exc
        assert size is not None
        words = {row["word"]: row["ndoc"] for row in rows}
        lexicon = Lexicon(size["chunks"], float(size["average"]), words, Spelling(words))
        ended = self._clock.monotonic()
        self._metrics.lexicon_seconds.observe(ended - started)
        self._known = Reading(epoch, ended, lexicon)
        return self._known

    def _read_is_over(self, task: asyncio.Task[Reading]) -> None:
        self._next = None
        if not task.cancelled() and (failure := task.exception()) is not None:
            reason = failure.detail if isinstance(failure, CairnError) else type(failure).__name__
            log.warning("the words of the runbooks were not read", reason=reason)
