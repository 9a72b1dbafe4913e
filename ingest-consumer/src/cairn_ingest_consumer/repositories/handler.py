"""What is done with `repo.pushed`: one sync for each repository of the batch, its end in the state and the ledger.

A repository whose host is away must not hold up the others on its partition. So a failure is written down with the
time for the next try, and the mark is done; the gateway's timer marks the repository again when that time has come.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter

from cairn_ingest_consumer.model import Delivery
from cairn_ingest_consumer.repositories.asking import HostFailed, retry_in
from cairn_ingest_consumer.repositories.sync import LOADER, Job, Outcome, RepositorySync
from cairn_shared.clock import Clock
from cairn_shared.errors import InvalidInput, PermanentError
from cairn_shared.events import RepoPushed
from cairn_shared.logging import get_logger
from cairn_shared.repositories.hosts import Hosts
from cairn_shared.repositories.model import Declared, SyncState
from cairn_shared.repositories.reading import Head
from cairn_shared.repositories.store import RepositoryStore

log = get_logger(__name__)


class Done(Protocol):
    """Where it is noted that events came to their end."""

    async def done(self, deliveries: Sequence[Delivery], detail: str) -> None: ...


class SyncMetrics:
    """The metrics of repository syncs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.syncs = Counter(
            "cairn_repository_syncs_total",
            "Syncs by outcome: synced, partial, removed, failed, undeclared.",
            ("outcome",),
            registry=registry,
        )
        self.changes = Counter(
            "cairn_repository_changes_total",
            "Runbooks changed by syncs: written, deleted.",
            ("kind",),
            registry=registry,
        )


class SyncRepositories:
    """An `EventHandler` for `repo.pushed`."""

    def __init__(
        self,
        sync: RepositorySync,
        repositories: RepositoryStore,
        *,
        hosts: Hosts,
        ledger: Done,
        metrics: SyncMetrics,
        clock: Clock,
    ) -> None:
        self._sync = sync
        self._repositories = repositories
        self._hosts = hosts
        self._ledger = ledger
        self._metrics = metrics
        self._clock = clock

    async def handle(self, deliveries: Sequence[Delivery]) -> None:
        """As `ports.EventHandler.handle`."""
        by_name: dict[str, list[Delivery]] = {}
        for delivery in deliveries:
            body = delivery.event.body()
            if not isinstance(body, RepoPushed):
                raise PermanentError(f"{delivery.event.type} is no push", stage="validate")
            by_name.setdefault(body.repository, []).append(delivery)
        for name, marks in by_name.items():
            await self._ledger.done(marks, await self.run(name))

    async def run(self, name: str) -> str:
        """Sync the repository `name`; in one line, what came of it."""
        declared = await self._repositories.find(name)
        if declared is None:
            self._metrics.syncs.labels("undeclared").inc()
            return f"{name} is not declared"
        started = self._clock.now()
        try:
            if declared.removed:
                outcome = await self._sync.remove(declared.declaration)
                state, kind = _state(declared, outcome, started, self._clock.now()), "removed"
            else:
                outcome = await self._run(declared)
                state, kind = (
                    _state(declared, outcome, started, self._clock.now()),
                    "partial" if outcome.left else "synced",
                )
        except HostFailed as failure:
            state, kind = _failed(declared, failure, started, self._clock.now()), "failed"
            log.warning("repository not synced", repository=name, error=failure.error.detail, retry_at=state.retry_at)
        await self._repositories.save_state(name, state)
        self._metrics.syncs.labels(kind).inc()
        if kind == "failed":
            return f"failed: {state.error}"
        self._metrics.changes.labels("written").inc(state.written)
        self._metrics.changes.labels("deleted").inc(state.deleted)
        log.info(
            "repository synced",
            repository=name,
            commit=state.commit,
            files=state.files,
            written=state.written,
            deleted=state.deleted,
            skipped=len(state.skipped),
        )
        return f"{state.commit or 'removed'}: {state.files} files, {state.written} written, {state.deleted} deleted"

    async def _run(self, declared: Declared) -> Outcome:
        declaration, state = declared.declaration, declared.state
        try:
            access = self._hosts.access(declaration)
        except InvalidInput as exc:
            raise HostFailed(exc) from exc
        same = state.commit is not None and state.digest == declaration.settings_digest()
        job = Job(
            declaration,
            access,
            known=Head(state.commit, state.etag) if same and state.commit else None,
            unreadable={one.path: one for one in state.skipped if one.blob and state.loader == LOADER},
            warned=state.warned,
            again_from=(state.resume or "") if state.loader not in {None, LOADER} else None,
        )
        return await self._sync.sync(job)


def _state(declared: Declared, outcome: Outcome, started: datetime, now: datetime) -> SyncState:
    left = f"{len(outcome.left)} files are left for the next sync" if outcome.left else None
    before = declared.state
    # After a part of a first sync nothing is known of the rest; of reading all again, where to go on.
    reading_again = before.loader not in {None, LOADER}
    return SyncState(
        commit=outcome.commit or None,
        etag=outcome.etag,
        digest=declared.declaration.settings_digest(),
        loader=before.loader if left and reading_again else LOADER,
        resume=min(outcome.left) if left and reading_again else None,
        files=outcome.files,
        written=outcome.written,
        deleted=outcome.deleted,
        skipped=sorted(outcome.skipped.values(), key=lambda one: one.path),
        warned=sorted(outcome.warned.values(), key=lambda one: one.path),
        event_ids=[str(one) for one in outcome.event_ids],
        started_at=started,
        synced_at=None if left else now,
        error=left,
        retry_at=now if left else None,
    )


def _failed(declared: Declared, failure: HostFailed, started: datetime, now: datetime) -> SyncState:
    failures = declared.state.failures + 1
    return declared.state.model_copy(
        update={
            "error": failure.error.detail,
            "failures": failures,
            "started_at": started,
            "retry_at": now + retry_in(failure, failures),
            "event_ids": [],
            "written": 0,
            "deleted": 0,
        }
    )
