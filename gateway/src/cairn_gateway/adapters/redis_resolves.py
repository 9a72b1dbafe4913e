"""`Resolves` in Redis: without it an alert that fires again within a minute of its end is told of a minute later."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cairn_shared.redis import Client, RedisFailure

_PREFIX = "cairn:resolved-by:"


class RedisResolves:
    """Remembers for `seconds`: so long after its end an alert that fires again is nobody's stale repeat."""

    def __init__(self, client: Client, seconds: int = 3600) -> None:
        self._client = client
        self._seconds = seconds

    async def remember(self, senders: Mapping[str, str]) -> None:
        if not senders:
            return
        try:
            async with self._client.pipeline(transaction=False) as pipeline:
                for subject, sender in senders.items():
                    pipeline.set(f"{_PREFIX}{subject}", sender, ex=self._seconds)
                await pipeline.execute()
        except RedisFailure:
            return

    async def recall(self, subjects: Collection[str]) -> dict[str, str]:
        wanted = list(subjects)
        if not wanted:
            return {}
        try:
            values = await self._client.mget([f"{_PREFIX}{subject}" for subject in wanted])
        except RedisFailure:
            return {}
        return {
            subject: value.decode() if isinstance(value, bytes) else value
            for subject, value in zip(wanted, values, strict=True)
            if value is not None
        }
