"""The rate limit: an allowance fetched in handfuls is never larger than the one asked for request by request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from cairn_gateway.adapters.redis_limiter import LimitPolicy, RedisLimiter
from cairn_gateway.model import Principal, Role
from cairn_shared.errors import TooManyRequests
from cairn_shared.redis import open_redis
from cairn_shared.settings import RedisSettings

if TYPE_CHECKING:
    from gateway.tests.edge.conftest import StillClock

WHO = Principal("ada", Role.READER, "k1")


async def passed(limiters: list[RedisLimiter], most: int) -> int:
    """How many requests pass, one limiter after another, before the first is refused."""
    for number in range(most):
        try:
            await limiters[number % len(limiters)].check(WHO)
        except TooManyRequests as exc:
            return number if exc.retry_after else -1
    return most


@pytest.mark.parametrize(("burst", "replicas"), [(3, 1), (3, 2), (250, 1), (1000, 1), (1000, 3)])
async def test_a_burst_passes_and_nothing_more(redis_url: str, clock: StillClock, burst: int, replicas: int) -> None:
    policy = LimitPolicy(per_minute=1, burst=burst)
    async with open_redis(RedisSettings(redis_url=SecretStr(redis_url)), "tests") as client:
        limiters = [RedisLimiter(client, clock, policy) for _ in range(replicas)]
        let_through = await passed(limiters, 2 * burst)
    assert burst - policy.handful * replicas < let_through <= burst


async def test_leave_that_is_not_used_in_time_is_lost(redis_url: str, clock: StillClock) -> None:
    policy = LimitPolicy(per_minute=1, burst=1000)
    async with open_redis(RedisSettings(redis_url=SecretStr(redis_url)), "tests") as client:
        limiter = RedisLimiter(client, clock, policy)
        await limiter.check(WHO)
        clock.advance(policy.keep + 1)
        assert await passed([limiter], 2000) == 990
