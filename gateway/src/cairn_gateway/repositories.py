"""Declaring runbook repositories, and seeing to it that they are synced: on change, on demand and by the clock.

The consumer syncs. Here only dirty marks are made: a `repo.pushed` event asks the consumer to look.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cairn_gateway.accept import Accepter
from cairn_gateway.repository_file import read_file
from cairn_shared.clock import Clock
from cairn_shared.errors import CairnError, InvalidInput
from cairn_shared.events import Event, RepoPushed, make_event
from cairn_shared.logging import get_logger
from cairn_shared.repositories.hosts import Hosts
from cairn_shared.repositories.model import Declaration, Declared
from cairn_shared.repositories.store import RepositoryStore

log = get_logger(__name__)

SOURCE = "cairn"


@dataclass(frozen=True)
class TimerPolicy:
    """Every repository is synced at least every `interval`; the clock is looked at every `look` seconds.

    A sync that was asked for and has not begun after `patience` is asked for again.
    """

    interval: timedelta = timedelta(hours=1)
    look: float = 20.0
    patience: timedelta = timedelta(minutes=10)


class Repositories:
    """The use cases of `/repos`."""

    def __init__(self, store: RepositoryStore, hosts: Hosts, accepter: Accepter, clock: Clock) -> None:
        self._store = store
        self._hosts = hosts
        self._accepter = accepter
        self._clock = clock

    async def all(self) -> list[Declared]:
        """The declarations."""
        return await self._store.all()

    async def get(self, name: str) -> Declared:
        """One of them; `NotFound` if there is none."""
        return await self._store.get(name)

    async def declare(self, declaration: Declaration, *, by: str) -> tuple[Declared, uuid.UUID]:
        """Declare or change it, and ask for its sync.

        Raises:
            InvalidInput: its host may not be contacted.
            Conflict: the file RUNBOOK_REPOS declares it.
        """
        self._hosts.access(declaration)
        declared = await self._store.declare(declaration, by=by)
        return declared, (await self.mark([declared.declaration]))[0]

    async def remove(self, name: str, *, by: str, keep: bool) -> uuid.UUID | None:
        """Remove it and its runbooks; with `keep` the runbooks stay, no longer synced.

        Raises:
            NotFound: there is none.
            InvalidInput: the file RUNBOOK_REPOS declares it.
        """
        declared = await self._store.get(name)
        if declared.origin == "file":
            raise InvalidInput(f"{name} is declared in the file of RUNBOOK_REPOS: remove it there", field="name")
        if keep:
            await self._store.forget(name)
            return None
        await self._store.remove(name, by=by)
        return (await self.mark([declared.declaration]))[0]

    async def sync(self, name: str) -> uuid.UUID:
        """Ask for a sync; the event is `searchable` when it has ended.

        Raises:
            NotFound: there is none.
        """
        return (await self.mark([(await self._store.get(name)).declaration]))[0]

    async def mark(self, declarations: Sequence[Declaration]) -> list[uuid.UUID]:
        """Ask the consumer to look at these repositories."""
        return await self._accepter.accept([_mark(one, self._clock.now()) for one in declarations])

    async def apply_file(self, path: str) -> None:
        """Make the declarations be those of the YAML file of RUNBOOK_REPOS.

        Raises:
            InvalidInput: the file is wrong; the detail says where.
        """
        declarations = read_file(path)
        for declaration in declarations:
            self._hosts.access(declaration)
        changed, gone = await self._store.apply_file(declarations, by=f"file:{Path(path).name}")
        touched = [await self._store.find(name) for name in (*changed, *gone)]
        if touched:
            await self.mark([one.declaration for one in touched if one is not None])
            log.info("repositories declared by the file", changed=changed, removed=gone)


class RepositoryTimer:
    """Asks for the syncs that are due. Run by one process, the leader."""

    def __init__(self, store: RepositoryStore, repositories: Repositories, clock: Clock, policy: TimerPolicy) -> None:
        self._store = store
        self._repositories = repositories
        self._clock = clock
        self._policy = policy
        self._asked: dict[str, datetime] = {}

    async def run(self) -> None:
        """Look for ever, until cancelled."""
        while True:
            try:
                await self.look()
            except CairnError as exc:
                log.warning("repositories not looked at", error=exc.detail)
            await self._clock.sleep(self._policy.look)

    async def look(self) -> list[str]:
        """Ask for what is due; the names."""
        now = self._clock.now()
        due = [
            one.declaration
            for one in await self._store.all(removed=None)
            if is_due(one, now, self._policy) and not self._is_asked(one, now)
        ]
        if due:
            await self._repositories.mark(due)
            self._asked.update((one.name, now) for one in due)
        return [one.name for one in due]

    def _is_asked(self, declared: Declared, now: datetime) -> bool:
        """Whether it was asked for, and there is still hope that the sync begins."""
        asked = self._asked.get(declared.declaration.name)
        if asked is None or now - asked >= min(self._policy.patience, self._policy.interval):
            return False
        begun = declared.state.started_at
        return begun is None or begun < asked


def is_due(declared: Declared, now: datetime, policy: TimerPolicy) -> bool:
    """Whether a sync is overdue: it failed and may be tried again, or the last good one is too long ago."""
    state = declared.state
    if declared.removed:
        return state.synced_at is None or state.synced_at <= declared.updated_at
    if state.error is not None:
        return state.retry_at is None or state.retry_at <= now
    return state.synced_at is None or state.synced_at + policy.interval <= now


def _mark(declaration: Declaration, now: datetime) -> Event:
    return make_event(
        "repo.pushed",
        source=SOURCE,
        source_id=f"sync|{declaration.name}|{uuid.uuid4()}",
        subject=f"{declaration.name}@{declaration.branch}",
        version=int(now.timestamp() * 1_000_000),
        occurred_at=now,
        accepted_at=now,
        payload=RepoPushed(repository=declaration.name, branch=declaration.branch),
    )
