"""Asks the consumer to go on with pushes whose commits it could not fetch at once. Run by one process, the leader."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from cairn_gateway.accept import Accepter
from cairn_shared.clock import Clock
from cairn_shared.errors import CairnError
from cairn_shared.events import Event, PushCut, make_event
from cairn_shared.logging import get_logger
from cairn_shared.repositories.fetches import Fetch, FetchStore

log = get_logger(__name__)

LOOK = 10.0
"""Seconds between looks."""

PATIENCE = timedelta(minutes=5)
"""What was asked for and has not moved for so long is asked for again."""


class FetchTimer:
    """Marks what is due. Every mark has an id of its own: the inbox takes an event once."""

    def __init__(self, store: FetchStore, accepter: Accepter, clock: Clock) -> None:
        self._store = store
        self._accepter = accepter
        self._clock = clock

    async def run(self) -> None:
        """Look for ever, until cancelled."""
        while True:
            try:
                await self.look()
            except CairnError as exc:
                log.warning("pushes not looked at", error=exc.detail)
            await self._clock.sleep(LOOK)

    async def look(self) -> int:
        """Ask for what is due; how many."""
        due = await self._store.due(PATIENCE)
        if due:
            await self._accepter.accept([_mark(one, self._clock.now()) for one in due])
        return len(due)


def _mark(fetch: Fetch, now: datetime) -> Event:
    cut = PushCut.model_validate(fetch.cut)
    return make_event(
        "push.cut",
        source=fetch.source,
        source_id=f"push.cut|{cut.key()}|{uuid.uuid4()}",
        subject=f"{cut.prefix}@{cut.after}",
        version=int(now.timestamp() * 1_000_000),
        occurred_at=now,
        accepted_at=now,
        payload=cut,
    )
