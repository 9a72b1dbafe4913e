"""A ledger for tests of repository sync."""

from __future__ import annotations

from collections.abc import Sequence

from cairn_ingest_consumer.model import Delivery


class KeptNotes:
    """A ledger that remembers."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []

    async def done(self, deliveries: Sequence[Delivery], detail: str) -> None:
        self.notes += [(str(one.event.event_id), detail) for one in deliveries]
