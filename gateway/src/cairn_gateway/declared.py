"""The declared runbook repositories as pushes are compared with them."""

from __future__ import annotations

import math

from cairn_gateway.sources.model import RunbookRepositories
from cairn_shared.clock import Clock
from cairn_shared.errors import TransientError
from cairn_shared.logging import get_logger
from cairn_shared.repositories.hosts import Hosts
from cairn_shared.repositories.store import RepositoryStore

log = get_logger(__name__)

FRESH = 1.0


class DeclaredRepositories:
    """Reads them for a push, unless it did so within `FRESH` seconds; while MongoDB is away, what it read last.

    Who declares a repository asks for its sync, so a push in between is seen all the same. A push must not be lost
    because MongoDB rests. If this process never saw a declaration, the hourly sync finds what the push brought.
    """

    def __init__(self, store: RepositoryStore, hosts: Hosts, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._read_at = -math.inf
        self._apis = hosts.with_token()
        self._last = RunbookRepositories(apis=self._apis)

    async def __call__(self) -> RunbookRepositories:
        """The present declarations."""
        if self._clock.monotonic() - self._read_at < FRESH:
            return self._last
        try:
            declared = await self._store.all()
        except TransientError as exc:
            log.warning("declarations not read, the last ones are used", error=exc.detail)
            return self._last
        names: dict[tuple[str, str], tuple[str, ...]] = {}
        for one in declared:
            key = (one.declaration.canonical_url, one.declaration.branch)
            names[key] = (*names.get(key, ()), one.declaration.name)
        self._last, self._read_at = RunbookRepositories(names, self._apis), self._clock.monotonic()
        return self._last
