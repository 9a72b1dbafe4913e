"""`Limiter` in Redis: the generic cell rate algorithm (ITU-T I.371), one key, its allowance fetched in handfuls.

The stored value is the theoretical arrival time: when the key's allowance is used up, that time lies `burst`
emission intervals ahead of now. Redis's own clock is used, so replicas agree. A replica fetches leave for several
requests at once where the burst is large enough for that; what it does not use in time is lost to the client, never
gained.
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

# KEYS[1] the cell; ARGV[1] microseconds between requests, ARGV[2] burst, ARGV[3] leave for how many requests is wanted.
# Answers for how many it is given, and where for none the wait in microseconds.
_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, burst, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local arrival = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
local given = math.min(wanted, math.floor((now - arrival) / interval + burst))
if given < 1 then return {0, math.ceil(arrival + interval - interval * burst - now)} end
arrival = arrival + interval * given
redis.call('SET', KEYS[1], string.format('%.0f', arrival), 'PX', math.ceil((arrival - now) / 1000) + 1)
return {given, 0}
"""


@dataclass(frozen=True)
class LimitPolicy:
    """`per_minute` requests of one key in the long run (0: no limit), `burst` at once.

    A hundredth of the burst is fetched at once, and kept for `keep` seconds. After a failure Redis is left alone for
    `rest` seconds, so that a dead Redis does not slow every request down.
    """

    per_minute: int
    burst: int
    keep: float = 1.0
    rest: float = 2.0
    remembered: int = 10_000

    @property
    def handful(self) -> int:
        """For how many requests leave is fetched at once."""
        return max(1, self.burst // 100)


@dataclass
class _Leave:
    """What is left of a handful, and until when."""

    requests: int
    until: float


class RedisLimiter:
    """Lets everything through while Redis is away: losing it costs speed only, never an answer."""

    def __init__(self, client: Client, clock: Clock, policy: LimitPolicy) -> None:
        self._script = client.register_script(_SCRIPT)
        self._clock = clock
        self._policy = policy
        self._resting_until = 0.0
        self._leaves: dict[str, _Leave] = {}

    async def check(self, principal: Principal) -> None:
        now = self._clock.monotonic()
        if not self._policy.per_minute or now < self._resting_until:
            return
        key = f"cairn:limit:{principal.user_id}:{principal.key_id}"
        leave = self._leaves.get(key)
        if leave is not None and leave.requests > 0 and now < leave.until:
            leave.requests -= 1
            return
        try:
            given, wait = await self._fetch(key)
        except RedisFailure:
            self._resting_until = self._clock.monotonic() + self._policy.rest
            log.warning("no rate limit while redis is away")
            return
        if not given:
            raise TooManyRequests("too many requests with this key", retry_after=wait / 1e6)
        if len(self._leaves) >= self._policy.remembered:
            self._leaves.clear()
        self._leaves[key] = _Leave(given - 1, now + self._policy.keep)

    async def _fetch(self, key: str) -> tuple[int, int]:
        interval = 60_000_000 / self._policy.per_minute
        given, wait = await cast("Any", self._script)(
            keys=[key], args=[interval, self._policy.burst, self._policy.handful]
        )
        return int(given), int(wait)
