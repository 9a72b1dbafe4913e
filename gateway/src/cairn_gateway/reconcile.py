"""Comparing MongoDB, the truth, with the index, and publishing differences again (invariant I8).

The index is read first. What changes meanwhile is therefore never taken for an index that is ahead, and what changed
less than a grace period ago counts as on its way.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta

from cairn_gateway.index_facts import is_altered
from cairn_gateway.metrics import Metrics
from cairn_gateway.ports import Index, Spool
from cairn_shared.api.index import IndexedDocument, LedgerEntry
from cairn_shared.clock import Clock
from cairn_shared.errors import CairnError, TransientError
from cairn_shared.logging import get_logger
from cairn_shared.runbooks.records import SOURCE, Head, revision_event_id
from cairn_shared.runbooks.store import RunbookStore

log = get_logger(__name__)
BY = "reconciler"
WORDS_PAGE = 25
"""Documents in a page whose words are compared, at half a second for a MB of text: far below the client's time-out."""

BEHIND = ("missing", "stale", "undeleted")
"""The kinds that the event of the present revision heals, if it only arrives."""


@dataclass(frozen=True)
class Difference:
    """One runbook that the index holds otherwise; versions are None where there is none."""

    runbook_id: str
    revision: int | None
    indexed_version: int | None


@dataclass
class Differences:
    """Every difference is in one list.

    missing    in MongoDB, not in the index
    stale      the index has an older revision
    undeleted  deleted in MongoDB, still in the index
    altered    the same revision with other content, other facts (title, alerts, links, path ...), another number of
               steps, or a step or chunk with other text; where `words` is asked for, with other words to be found by
    broken     no chunks, or chunks without a vector or with a wrong one (of another text: where `vectors` is asked for)
    ahead      the index has a newer revision than MongoDB: a restored MongoDB?
    unknown    in the index, never in MongoDB: a lost MongoDB?
    """

    missing: list[Difference] = field(default_factory=list)
    stale: list[Difference] = field(default_factory=list)
    undeleted: list[Difference] = field(default_factory=list)
    altered: list[Difference] = field(default_factory=list)
    broken: list[Difference] = field(default_factory=list)
    ahead: list[Difference] = field(default_factory=list)
    unknown: list[Difference] = field(default_factory=list)

    def by_kind(self) -> dict[str, list[Difference]]:
        """All lists by name."""
        return {kind.name: getattr(self, kind.name) for kind in fields(self)}


@dataclass(frozen=True)
class Comparison:
    """What was compared, and how it differs.

    checked     runbooks of MongoDB that there are
    tombstones  those that were deleted: compared as well
    indexed     documents of the index that are not deleted
    pending     ids changed too recently to be judged
    repaired    ids that were written again
    """

    checked: int
    tombstones: int
    indexed: int
    differences: Differences
    pending: tuple[str, ...]
    repaired: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReconcilePolicy:
    """Seconds between comparisons (0: never), and how long a change may be on its way.

    Any change may be for `grace`; one that Kafka has and the ledger does not know, for `in_flight`: the consumer may
    have much to do before it.
    """

    interval: float = 300.0
    grace: timedelta = timedelta(seconds=30)
    in_flight: timedelta = timedelta(minutes=15)
    page: int = 1000


def kind_of(head: Head, indexed: IndexedDocument | None) -> str | None:
    """How the index differs from `head`, a name of a list of `Differences`; None: it does not."""
    if indexed is not None and indexed.version > head.revision:
        return "ahead"
    if head.deleted:
        return "undeleted" if indexed is not None and not indexed.deleted else None
    if indexed is None or (indexed.deleted and indexed.version < head.revision):
        return "missing"
    if indexed.version < head.revision:
        return "stale"
    if is_altered(head, indexed):
        return "altered"
    return "broken" if indexed.broken_vectors or not indexed.chunks else None


def compare(heads: Iterable[Head], index: Mapping[str, IndexedDocument], recent: datetime) -> Comparison:
    """Compare; runbooks changed after `recent` are not judged. `index` is by runbook id."""
    differences, pending, seen, tombstones = Differences(), [], set(), 0
    for head in heads:
        seen.add(head.id)
        tombstones += head.deleted
        indexed = index.get(head.id)
        kind = kind_of(head, indexed)
        if kind is None:
            continue
        if head.updated_at > recent and kind != "ahead":
            pending.append(head.id)
            continue
        version = indexed.version if indexed else None
        getattr(differences, kind).append(Difference(head.id, head.revision, version))
    for runbook_id, document in index.items():
        if runbook_id not in seen and not document.deleted:
            differences.unknown.append(Difference(runbook_id, None, document.version))
    live = sum(not document.deleted for document in index.values())
    return Comparison(len(seen) - tombstones, tombstones, live, differences, tuple(pending))


def with_wrong_vectors(index: Mapping[str, IndexedDocument], wrong: Mapping[str, int]) -> dict[str, IndexedDocument]:
    """`index` with the `wrong` vectors of its documents among the broken ones."""
    return {
        name: one.model_copy(update={"broken_vectors": one.broken_vectors + wrong[name]}) if name in wrong else one
        for name, one in index.items()
    }


class Reconciler:
    """Compares now and then (run by the leader), and on demand."""

    def __init__(
        self,
        *,
        store: RunbookStore,
        outbox: Spool,
        index: Index,
        clock: Clock,
        metrics: Metrics,
        policy: ReconcilePolicy,
    ) -> None:
        self._store = store
        self._outbox = outbox
        self._index = index
        self._clock = clock
        self._metrics = metrics
        self._policy = policy

    async def run(self) -> None:
        """Compare and repair until cancelled.

        What is in the dead letter queue would only get there again. What only a lost or restored MongoDB explains
        (`ahead`, `unknown`) is reported and left to an operator's `cairn verify --repair`: healing it unasked would
        delete what the index still has.
        """
        while self._policy.interval:
            await self._clock.sleep(self._policy.interval)
            try:
                found = await self.verify(repair=True, drastic=False)
            except CairnError as exc:
                log.warning("the comparison with the index waits", reason=exc.detail)
                continue
            counts = {kind: len(items) for kind, items in found.differences.by_kind().items() if items}
            if counts:
                log.warning("the index differed from MongoDB", repaired=len(found.repaired), **counts)

    async def verify(
        self,
        *,
        repair: bool,
        drastic: bool = True,
        words: bool = False,
        vectors: bool = False,
        grace: timedelta | None = None,
    ) -> Comparison:
        """Compare all runbooks; with `repair` write differences again, with `drastic` those of a lost MongoDB too.

        With `words` what searches look words up in is made again and compared, with `vectors` every text is embedded
        again. A `grace` given here stands for both of the policy's.

        Raises:
            TransientError: MongoDB, the retriever or, with `vectors`, the embedder is away.
        """
        now = self._clock.now()  # what is written anew while texts are embedded is not judged
        wrong = await self._index.wrong_vectors(SOURCE) if vectors else {}
        index = with_wrong_vectors(await self._read_index(words=words), wrong)
        heads = [head async for head in self._store.heads(page=self._policy.page)]
        recent = now - (self._policy.grace if grace is None else grace)
        comparison = compare(heads, index, recent)
        comparison = await self._without_in_flight(
            comparison, now - (self._policy.in_flight if grace is None else grace)
        )
        for kind, items in comparison.differences.by_kind().items():
            self._metrics.differences.labels(kind).set(len(items))
        if not repair:
            return comparison
        repaired = await self._repair(comparison.differences, recent, drastic=drastic)
        self._metrics.repaired.inc(len(repaired))
        return replace(comparison, repaired=tuple(repaired))

    async def _without_in_flight(self, comparison: Comparison, since: datetime) -> Comparison:
        """Do not judge revisions that wait for Kafka, or that it has since `since` and the index has yet to reach."""
        late = _events_of(comparison.differences)
        if not late:
            return comparison
        entries = await self._outbox.find(late)
        moving = [
            event_id
            for event_id, entry in entries.items()
            if entry.state == "pending" or (entry.published_at is not None and entry.published_at > since)
        ]
        settled = await self._index.ledger(moving)
        in_flight = {late[event_id] for event_id in moving if event_id not in settled}
        differences = replace(
            comparison.differences,
            **{
                kind: [item for item in getattr(comparison.differences, kind) if item.runbook_id not in in_flight]
                for kind in BEHIND
            },
        )
        pending = tuple(sorted({*comparison.pending, *in_flight}))
        return replace(comparison, differences=differences, pending=pending)

    async def _read_index(self, *, words: bool) -> dict[str, IndexedDocument]:
        found: dict[str, IndexedDocument] = {}
        after = None
        limit = min(self._policy.page, WORDS_PAGE) if words else self._policy.page
        while True:
            page = await self._index.documents(SOURCE, after, limit, words=words)
            found |= {document.external_id: document for document in page.documents}
            if page.next is None:
                return found
            if page.next == after:
                raise TransientError("retriever: the pages of documents do not end")
            after = page.next

    async def _repair(self, differences: Differences, recent: datetime, *, drastic: bool) -> list[str]:
        """What never reached the index is sent again; what did before `recent`, and is not there, is written anew."""
        behind = _events_of(differences)
        ledger = await self._index.ledger(behind)
        undone = {name for event_id, name in behind.items() if _was_done(ledger.get(event_id), recent)}
        repaired = [
            name
            for event_id, name in behind.items()
            if name not in undone and (drastic or not _is_dead(ledger.get(event_id)))
        ]
        for runbook_id in repaired:
            await self._store.publish_again(runbook_id)
        kinds = ("altered", "broken", *(("ahead", "unknown") if drastic else ()))
        rewritten = [item for kind in kinds for item in getattr(differences, kind)]
        rewritten += [item for kind in BEHIND for item in getattr(differences, kind) if item.runbook_id in undone]
        for difference in rewritten:
            await self._store.advance(difference.runbook_id, beyond=difference.indexed_version or 0, by=BY)
            repaired.append(difference.runbook_id)
        return repaired


def _events_of(differences: Differences) -> dict[uuid.UUID, str]:
    """The events that would heal what is behind, with their runbooks."""
    return {
        revision_event_id(item.runbook_id, item.revision): item.runbook_id
        for kind in BEHIND
        for item in getattr(differences, kind)
        if item.revision is not None
    }


def _was_done(entry: LedgerEntry | None, before: datetime) -> bool:
    return entry is not None and entry.state != "dead" and entry.settled_at <= before


def _is_dead(entry: LedgerEntry | None) -> bool:
    return entry is not None and entry.state == "dead"
