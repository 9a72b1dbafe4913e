"""Who asks: API keys are random tokens of 256 bits, kept as SHA-256 only (no salt needed at that entropy)."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from dataclasses import dataclass

from cairn_gateway.failed_keys import FailedKeys
from cairn_gateway.model import Principal, Role
from cairn_gateway.ports import KeyDirectory
from cairn_shared.clock import Clock
from cairn_shared.errors import TransientError, Unauthenticated

PREFIX = "cairn_"
BOOTSTRAP = Principal("bootstrap", Role.ADMIN, "bootstrap")


@dataclass(frozen=True)
class NewKey:
    """A key as it is shown once, and what is kept of it."""

    id: str
    token: str
    hash: str


@dataclass
class _Known:
    """A good key: when MongoDB last confirmed it, and when it is asked again."""

    principal: Principal
    confirmed_at: float
    ask_at: float


@dataclass(frozen=True)
class AuthPolicy:
    """Seconds: a good key is believed for `fresh`; while MongoDB does not answer within `timeout`, for `stale`."""

    fresh: float = 5.0
    stale: float = 3600.0
    timeout: float = 0.5
    remembered: int = 10_000


def new_key() -> NewKey:
    """A key that nobody can guess."""
    token = PREFIX + secrets.token_urlsafe(32)
    return NewKey(secrets.token_hex(6), token, hash_key(token))


def hash_key(token: str) -> str:
    """What is stored of a key."""
    return hashlib.sha256(token.encode()).hexdigest()


class Authenticator:
    """Finds the owner of a key, asking MongoDB only now and then."""

    def __init__(
        self,
        directory: KeyDirectory,
        bootstrap_key: str | None,
        clock: Clock,
        policy: AuthPolicy,
        failed: FailedKeys | None = None,
    ) -> None:
        self._directory = directory
        self._bootstrap = hash_key(bootstrap_key) if bootstrap_key else None
        self._clock = clock
        self._policy = policy
        self._failed = failed or FailedKeys(clock)
        self._known: dict[str, _Known] = {}

    async def authenticate(self, token: str | None, address: str = "") -> Principal:
        """The owner of `token`, which came from `address`.

        Raises:
            Unauthenticated: there is no such key; the detail does not tell why.
            TooManyRequests: the address sent too many wrong keys, and this one is not known to be good.
            Unavailable: MongoDB is away and the key was not seen before.
        """
        if not token:
            raise Unauthenticated("send an API key as `Authorization: Bearer KEY` or `X-API-Key: KEY`")
        hashed = hash_key(token)
        if self._bootstrap is not None and hmac.compare_digest(hashed, self._bootstrap):
            return BOOTSTRAP
        known = self._known.get(hashed)
        now = self._clock.monotonic()
        if known is None or now - known.confirmed_at >= self._policy.stale:
            self._failed.check(address)
            principal = await self._directory.find_key(hashed)
        elif now < known.ask_at:
            return known.principal
        else:
            try:
                async with asyncio.timeout(self._policy.timeout):
                    principal = await self._directory.find_key(hashed)
            except (TransientError, TimeoutError):
                known.ask_at = now + self._policy.fresh
                return known.principal
        if principal is None:
            self._known.pop(hashed, None)
            await self._failed.slow_down(address)
            raise Unauthenticated("the API key is not valid")
        if len(self._known) >= self._policy.remembered:
            self._known.clear()
        self._known[hashed] = _Known(principal, now, now + self._policy.fresh)
        return principal
