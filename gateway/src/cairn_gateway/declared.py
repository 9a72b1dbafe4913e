"""The declared runbook repositories as pushes are compared with them."""

from __future__ import annotations

from cairn_gateway.sources.model import RunbookRepositories
from cairn_shared.errors import TransientError
from cairn_shared.logging import get_logger
from cairn_shared.repositories.hosts import Hosts
from cairn_shared.repositories.store import RepositoryStore

log = get_logger(__name__)


class DeclaredRepositories:
    """Reads them for every push; while MongoDB is away, what it read last.

    A push must not be lost because MongoDB rests. If this process never saw a declaration, the hourly sync finds what
    the push brought.
    """

    def __init__(self, store: RepositoryStore, hosts: Hosts) -> None:
        self._store = store
        self._apis = hosts.with_token()
        self._last = RunbookRepositories(apis=self._apis)

    async def __call__(self) -> RunbookRepositories:
        """The present declarations."""
        try:
            declared = await self._store.all()
        except TransientError as exc:
            log.warning("declarations not read, the last ones are used", error=exc.detail)
            return self._last
        names: dict[tuple[str, str], tuple[str, ...]] = {}
        for one in declared:
            key = (one.declaration.canonical_url, one.declaration.branch)
            names[key] = (*names.get(key, ()), one.declaration.name)
        self._last = RunbookRepositories(names, self._apis)
        return self._last
