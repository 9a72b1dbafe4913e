"""`Receipts` in Redis. Without it an event that went straight to Kafka is unknown until the index has it, and one that
is sent again counts as having come now.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from datetime import datetime

from cairn_shared.redis import Client, RedisFailure

_PREFIX = "cairn:receipt:"


class RedisReceipts:
    """Remembers for `seconds`."""

    def __init__(self, client: Client, seconds: int = 24 * 3600) -> None:
        self._client = client
        self._seconds = seconds

    async def remember(self, accepted: Mapping[uuid.UUID, datetime]) -> None:
        if not accepted:
            return
        try:
            async with self._client.pipeline(transaction=False) as pipeline:
                for event_id, accepted_at in accepted.items():
                    pipeline.set(f"{_PREFIX}{event_id}", accepted_at.isoformat(), ex=self._seconds, nx=True)
                await pipeline.execute()
        except RedisFailure:
            return

    async def recall(self, event_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, datetime]:
        wanted = list(event_ids)
        if not wanted:
            return {}
        try:
            values = await self._client.mget([f"{_PREFIX}{event_id}" for event_id in wanted])
        except RedisFailure:
            return {}
        return {
            event_id: datetime.fromisoformat(value.decode() if isinstance(value, bytes) else value)
            for event_id, value in zip(wanted, values, strict=True)
            if value is not None
        }
