"""`Limiter` in Redis: the generic cell rate algorithm (ITU-T I.371), one key and one round trip a request.

The stored value is the theoretical arrival time: when the key's allowance is used up, that time lies `burst`
emission intervals ahead of now. Redis's own clock is used, so replicas agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from cairn_gateway.model import Principal
from cairn_shared.clock import Clock
from cairn_shared.errors import TooManyRequests
from cairn_shared.logging import get_logger
from cairn_shared.redis import Client, RedisFailure

log = get_logger(__name__)

# KEYS[1] the cell; ARGV[1] microseconds between requests, ARGV[2] burst. Answers the wait in microseconds, 0: pass.
_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local arrival = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now) + interval
local wait = arrival - interval * burst - now
if wait > 0 then return math.ceil(wait) end
redis.call('SET', KEYS[1], string.format('%.0f', arrival), 'PX', math.ceil((arrival - now) / 1000) + 1)
return 0
"""


@dataclass(frozen=True)
class LimitPolicy:
    """`per_minute` requests of one key in the long run (0: no limit), `burst` at once.

    After a failure Redis is left alone for `rest` seconds, so that a dead Redis does not slow every request down.
    """

    per_minute: int
    burst: int
    rest: float = 2.0


class RedisLimiter:
    """Lets everything through while Redis is away: losing it costs speed only, never an answer."""

    def __init__(self, client: Client, clock: Clock, policy: LimitPolicy) -> None:
        self._script = client.register_script(_SCRIPT)
        self._clock = clock
        self._policy = policy
        self._resting_until = 0.0

    async def check(self, principal: Principal) -> None:
        if not self._policy.per_minute or self._clock.monotonic() < self._resting_until:
            return
        interval = 60_000_000 / self._policy.per_minute
        try:
            wait = await self._run(f"cairn:limit:{principal.user_id}:{principal.key_id}", interval)
        except RedisFailure:
            self._resting_until = self._clock.monotonic() + self._policy.rest
            log.warning("no rate limit while redis is away")
            return
        if wait > 0:
            raise TooManyRequests("too many requests with this key", retry_after=wait / 1e6)

    async def _run(self, key: str, interval: float) -> int:
        call = cast("Any", self._script)
        return int(await call(keys=[key], args=[interval, self._policy.burst]))
