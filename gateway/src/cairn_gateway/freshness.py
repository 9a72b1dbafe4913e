"""Which runbooks of an answer have a newer revision than the one that was searched."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from pydantic import BaseModel

from cairn_shared.api.ask import AskResponse, PendingRevision
from cairn_shared.clock import Clock
from cairn_shared.errors import TransientError
from cairn_shared.runbooks.store import RunbookStore


@dataclass(frozen=True)
class FreshnessPolicy:
    """Seconds: an answer waits `timeout` for MongoDB and goes out without it then; a revision is believed for `fresh`.

    Under load the same few runbooks are cited again and again: `fresh` spares a query for each answer. What this
    gateway writes it knows at once; for so long a write of another replica may be missing from what is pending. After
    a failure MongoDB is not asked for `rest`.
    """

    timeout: float = 0.25
    fresh: float = 0.5
    rest: float = 2.0
    remembered: int = 10_000


class Cited(BaseModel):
    """Of a source: which runbook it is, and at which revision it was searched."""

    runbook_id: str
    kind: str = "runbook"
    revision: int | None = None


class Revisions:
    """The latest revisions by runbook, as MongoDB has them."""

    def __init__(self, store: RunbookStore, clock: Clock, policy: FreshnessPolicy = FreshnessPolicy()) -> None:
        self._store = store
        self._clock = clock
        self._policy = policy
        self._known: dict[str, tuple[int, float]] = {}
        self._resting_until = 0.0

    @classmethod
    def following(cls, store: RunbookStore, clock: Clock) -> Revisions:
        """Revisions that hear of each write of `store` at once."""
        revisions = cls(store, clock)
        store.tell(revisions.written)
        return revisions

    def written(self, runbook_id: str, revision: int) -> None:
        """This process wrote a revision: the one before is believed no longer."""
        self._remember(runbook_id, revision, self._clock.monotonic())

    async def latest(self, runbook_ids: Collection[str]) -> dict[str, int]:
        """Those that are known; nothing of them while MongoDB is away or slow."""
        now = self._clock.monotonic()
        found = {
            name: known[0]
            for name in runbook_ids
            if (known := self._known.get(name)) is not None and now - known[1] < self._policy.fresh
        }
        asked = [name for name in runbook_ids if name not in found]
        if not asked or now < self._resting_until:
            return found
        try:
            async with asyncio.timeout(self._policy.timeout):
                heads = await self._store.find_heads(asked)
        except (TransientError, TimeoutError):
            self._resting_until = self._clock.monotonic() + self._policy.rest
            return found
        for name, head in heads.items():
            found[name] = self._remember(name, head.revision, now)
        return found

    def _remember(self, runbook_id: str, revision: int, now: float) -> int:
        """The newer of what is known and `revision`: a write may have come while MongoDB was read."""
        if len(self._known) > self._policy.remembered:
            self._known.clear()
        known = self._known.get(runbook_id)
        newest = revision if known is None or known[1] < now - self._policy.fresh else max(revision, known[0])
        self._known[runbook_id] = (newest, now)
        return newest

    async def pending(self, sources: Iterable[Cited]) -> list[PendingRevision]:
        """Which runbooks among `sources` have a newer revision that is not searchable yet."""
        runbooks = [source for source in sources if source.kind == "runbook"]
        return pending_revisions(runbooks, await self.latest({source.runbook_id for source in runbooks}))


def with_pending(answer: bytes, pending: Iterable[PendingRevision]) -> bytes:
    """`answer`, an AskResponse as JSON, with these added to what it already says is pending."""
    told = AskResponse.model_validate_json(answer)
    known = {item.runbook_id: item for item in (*told.freshness.pending, *pending)}
    told.freshness.pending = [known[name] for name in sorted(known)]
    return told.model_dump_json().encode()


def pending_revisions(sources: Iterable[Cited], latest: Mapping[str, int]) -> list[PendingRevision]:
    """The runbooks of `sources` that were searched at an older revision than the latest, in order of their ids."""
    indexed = {
        source.runbook_id: source.revision
        for source in sources
        if source.kind == "runbook" and source.revision is not None
    }
    return [
        PendingRevision(runbook_id=name, indexed_revision=revision, latest_revision=latest[name])
        for name, revision in sorted(indexed.items())
        if latest.get(name, 0) > revision
    ]
