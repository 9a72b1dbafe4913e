"""Redis as the place for answers, flights and the circuit: what it loses costs speed only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from redis.exceptions import TimeoutError as RedisTimeout

from cairn_shared.clock import Clock
from cairn_shared.logging import get_logger
from cairn_shared.redis import Client, RedisFailure

log = get_logger(__name__)
T = TypeVar("T")

_LEAD = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return ARGV[1] end
return redis.call('GET', KEYS[1])
"""
_RENEW = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
_LAND = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] ~= '' then redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3]) end
return redis.call('DEL', KEYS[1])
"""
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
_FAILED = """
local count = redis.call('HINCRBY', KEYS[1], 'failures', 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return count
"""

_CIRCUIT_SECONDS = 3600


def _milliseconds(seconds: float) -> int:
    return max(1, int(seconds * 1000))


class RestingRedis:
    """A client that leaves a Redis which does not answer alone for `rest` seconds, instead of waiting for it each time.

    A Redis that is gone refuses at once and costs nothing; one that hangs would cost its time-out with every command.
    """

    def __init__(self, client: Client, clock: Clock, rest: float = 2.0) -> None:
        self._client = client
        self._clock = clock
        self._rest = rest
        self._until = 0.0
        self._answered = float("-inf")

    async def run(self, command: Callable[[Client], Awaitable[T]]) -> T:
        """The answer to `command`.

        Raises:
            RedisFailure: it failed, or Redis is being left alone.
        """
        if self._clock.monotonic() < self._until:
            raise TimeoutError("redis is left alone")
        try:
            answer = await command(self._client)
        except (RedisTimeout, TimeoutError):
            now = self._clock.monotonic()
            # While others get their answers it is this process that is slow, not Redis.
            if now - self._answered > self._rest / 2:
                self._until = now + self._rest
            raise
        self._answered = self._clock.monotonic()
        return answer

    async def script(self, text: str, keys: list[str], *arguments: str | bytes | int) -> Any:
        """The answer of a Lua script."""
        return await self.run(lambda client: client.eval(text, len(keys), *keys, *arguments))


class RedisAnswers:
    """AnswerStore: a failure is a miss."""

    def __init__(self, redis: RestingRedis) -> None:
        self._redis = redis

    async def get(self, key: str) -> bytes | None:
        try:
            value = await self._redis.run(lambda client: client.get(key))
        except RedisFailure as exc:
            log.debug("answer cache not read", error=type(exc).__name__)
            return None
        return value if isinstance(value, bytes) else None

    async def put(self, key: str, value: bytes, seconds: float) -> None:
        try:
            await self._redis.run(lambda client: client.set(key, value, px=_milliseconds(seconds)))
        except RedisFailure as exc:
            log.debug("answer not cached", error=type(exc).__name__)


class RedisFlights:
    """FlightStore: one lease per question, results under the token of the flight that made them."""

    def __init__(self, redis: RestingRedis) -> None:
        self._redis = redis

    async def lead(self, key: str, token: str, seconds: float) -> str:
        holder = await self._redis.script(_LEAD, [key], token, _milliseconds(seconds))
        # Between the two commands of the script nothing expires: Redis freezes time in a script.
        return holder.decode() if isinstance(holder, bytes) else token

    async def renew(self, key: str, token: str, seconds: float) -> bool:
        return bool(await self._redis.script(_RENEW, [key], token, _milliseconds(seconds)))

    async def land(self, key: str, token: str, result: bytes | None, seconds: float) -> None:
        await self._redis.script(_LAND, [key, f"{key}:{token}"], token, result or b"", _milliseconds(seconds))

    async def look(self, key: str, token: str) -> tuple[str | None, bytes | None]:
        holder, result = await self._redis.run(lambda client: client.mget([key, f"{key}:{token}"]))
        return (
            holder.decode() if isinstance(holder, bytes) else None,
            result if isinstance(result, bytes) else None,
        )


class RedisCircuit:
    """CircuitStore: a hash with the failures in a row and the time of opening, and a lease for the probe."""

    def __init__(self, redis: RestingRedis, name: str) -> None:
        self._redis = redis
        self._key = f"cairn:circuit:{name}"
        self._probe = f"cairn:circuit:{name}:probe"

    async def read(self) -> tuple[int, float | None]:
        failures, opened = await self._redis.run(lambda client: client.hmget(self._key, ["failures", "opened"]))
        return int(failures or 0), float(opened) if opened else None

    async def failed(self) -> int:
        return int(await self._redis.script(_FAILED, [self._key], _CIRCUIT_SECONDS * 1000))

    async def opened(self, at: float) -> None:
        await self._redis.run(lambda client: client.hset(self._key, "opened", repr(at)))
        await self._redis.run(lambda client: client.expire(self._key, _CIRCUIT_SECONDS))

    async def closed(self) -> None:
        await self._redis.run(lambda client: client.delete(self._key))

    async def take_probe(self, token: str, seconds: float) -> bool:
        return bool(
            await self._redis.run(lambda client: client.set(self._probe, token, nx=True, px=_milliseconds(seconds)))
        )

    async def release_probe(self, token: str) -> None:
        await self._redis.script(_RELEASE, [self._probe], token)
