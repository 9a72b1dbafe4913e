"""Documents into the index: what is done with runbooks, commits, tickets, alerts and the like.

The slow parts (cutting and embedding) come before the transaction and only for what is news; the transaction
decides again, under its locks, what really is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from cairn_ingest_consumer import collapse
from cairn_ingest_consumer.collapse import Register
from cairn_ingest_consumer.documents import render
from cairn_ingest_consumer.embedders import Embedders, Plan, Served
from cairn_ingest_consumer.embedding import embed_all, missing_texts
from cairn_ingest_consumer.errors import ContentMoved, Rejected, TextRefused
from cairn_ingest_consumer.metrics import IngestMetrics
from cairn_ingest_consumer.model import Delivery, KnownPart, LedgerNote, PartWrite, PreparedPart, Vector, Vectors
from cairn_ingest_consumer.ports import DocumentStore, EmbeddingModel
from cairn_ingest_consumer.prepare import prepare
from cairn_shared.clock import Clock
from cairn_shared.crashpoints import crash_at
from cairn_shared.errors import PermanentError, TransientError
from cairn_shared.logging import get_logger

log = get_logger(__name__)

REREADS = 5
PATIENCE = 2.0
"""Seconds that a batch waits for a model that searches do not use."""


class IndexDocuments:
    """An `EventHandler` for every event that writes a part of a document."""

    def __init__(self, store: DocumentStore, embedders: Embedders, metrics: IngestMetrics, clock: Clock) -> None:
        self._store = store
        self._embedders = embedders
        self._at_work = 0
        self._metrics = metrics
        self._clock = clock

    @property
    def busy(self) -> bool:
        """Whether a batch is in hand: work that can wait should."""
        return self._at_work > 0

    async def handle(self, deliveries: Sequence[Delivery]) -> None:
        """As `ports.EventHandler.handle`."""
        self._at_work += 1
        try:
            await self._handle(deliveries)
        finally:
            self._at_work -= 1

    async def _handle(self, deliveries: Sequence[Delivery]) -> None:
        writes = _render_all(deliveries)
        winners = collapse.highest(write for _, write in writes)
        for _ in range(REREADS):
            with self._metrics.stage("read"):
                known = await self._store.known_parts(winners)
            try:
                await self._index(writes, collapse.news(winners, known), known)
            except ContentMoved:
                continue
            return
        raise TransientError("the same documents are being written by others all the time")

    async def _index(
        self,
        writes: Sequence[tuple[Delivery, PartWrite]],
        fresh: Mapping[Register, PartWrite],
        known: Mapping[Register, KnownPart],
    ) -> None:
        parts: list[PreparedPart] = []
        vectors: dict[str, Vectors] = {}
        active: str | None = None
        if any(not write.deleted for write in fresh.values()):
            plan = await self._embedders.plan()
            active = plan.active
            with self._metrics.stage("chunk"):
                parts, errors = await asyncio.to_thread(_prepare_all, fresh, known, plan.main.model)
            if errors:
                raise Rejected(_culprits(writes, errors))
            crash_at("after_chunk")
            vectors = await self._vectors(writes, parts, plan)
            crash_at("after_embed")
        else:
            parts = [PreparedPart(write, ()) for write in fresh.values()]
        notes = [_note(delivery, write, fresh, known) for delivery, write in writes]
        with self._metrics.stage("write"):
            result = await self._store.write(parts, vectors, active, notes)
        crash_at("after_write")
        now = self._clock.now()
        for delivery, write in writes:
            outcome = result.outcomes[write.rank.event_id]
            self._metrics.settled(delivery.event.type, outcome)
            if outcome == "searchable" and fresh.get(write.key) is write:  # not when it was so before
                self._metrics.became_searchable((now - write.accepted_at).total_seconds())

    async def _vectors(
        self, writes: Sequence[tuple[Delivery, PartWrite]], parts: Sequence[PreparedPart], plan: Plan
    ) -> dict[str, Vectors]:
        """By fingerprint: the main model's vector of every chunk of `parts`, and what the other models have."""
        changed = [part for part in parts if part.steps]
        vectors: dict[str, Vectors] = {plan.main.model.fingerprint: await self._main(writes, changed, plan.main)}
        for served in plan.others:
            vectors[served.model.fingerprint] = await self._other(changed, served)
        return vectors

    async def _main(
        self, writes: Sequence[tuple[Delivery, PartWrite]], changed: Sequence[PreparedPart], served: Served
    ) -> dict[str, Vector]:
        """A vector for every chunk: those that the index has, the others from the embedder."""
        vectors, texts = await self._missing(changed, served)
        self._metrics.chunks(reused=sum(_chunks(part) for part in changed) - len(texts), embedded=len(texts))
        if not texts:
            return vectors
        try:
            with self._metrics.stage("embed"):
                embedded = await embed_all(served.endpoint.embedder, list(texts.values()), served.model.fingerprint)
        except TextRefused as exc:
            sha = list(texts)[exc.index]
            error = PermanentError(exc.detail, stage="embed")
            owners = {part.write.key: error for part in changed if _holds(part, sha)}
            raise Rejected(_culprits(writes, owners)) from exc
        except TransientError:
            served.endpoint.models.forget()
            raise
        return vectors | dict(zip(texts, embedded, strict=True))

    async def _other(self, changed: Sequence[PreparedPart], served: Served) -> dict[str, Vector]:
        """What another model than the one in use has or embeds in time: it must neither stop nor slow down ingest."""
        vectors, texts = await self._missing(changed, served)
        if not texts:
            return vectors
        try:
            async with asyncio.timeout(PATIENCE):
                embedded = await embed_all(served.endpoint.cutting, list(texts.values()), served.model.fingerprint)
        except (TransientError, TextRefused, TimeoutError) as exc:
            log.warning("left to the rebuilding", model=served.space.model, error=type(exc).__name__)
            self._embedders.failed(served)
            return vectors
        return vectors | dict(zip(texts, embedded, strict=True))

    async def _missing(
        self, changed: Sequence[PreparedPart], served: Served
    ) -> tuple[dict[str, Vector], dict[str, str]]:
        """Vectors that the index has, and the texts of those that it has not."""
        trusted = {part.write.document_id for part in changed if not part.write.rewrite}
        vectors = await self._store.vectors(trusted, served.space)
        return vectors, missing_texts(changed, vectors)


def _render_all(deliveries: Sequence[Delivery]) -> list[tuple[Delivery, PartWrite]]:
    writes: list[tuple[Delivery, PartWrite]] = []
    culprits: dict[int, tuple[Delivery, PermanentError]] = {}
    for delivery in deliveries:
        try:
            writes.append((delivery, render(delivery.event)))
        except PermanentError as exc:
            culprits[delivery.record.offset] = (delivery, exc)
    if culprits:
        raise Rejected(culprits)
    return writes


def _prepare_all(
    fresh: Mapping[Register, PartWrite], known: Mapping[Register, KnownPart], model: EmbeddingModel
) -> tuple[list[PreparedPart], dict[Register, PermanentError]]:
    parts: list[PreparedPart] = []
    errors: dict[Register, PermanentError] = {}
    for key, write in fresh.items():
        if write.deleted:
            parts.append(PreparedPart(write, ()))
        elif collapse.is_same_content(write, known.get(key)):
            parts.append(PreparedPart(write, None))
        else:
            try:
                parts.append(prepare(write, model))
            except PermanentError as exc:
                errors[key] = exc
    return parts, errors


def _culprits(
    writes: Sequence[tuple[Delivery, PartWrite]], errors: Mapping[Register, PermanentError]
) -> dict[int, tuple[Delivery, PermanentError]]:
    """The deliveries whose write is the one that failed; others of the same part get their turn without it."""
    highest = collapse.highest(write for _, write in writes)
    return {
        delivery.record.offset: (delivery, errors[write.key])
        for delivery, write in writes
        if write.key in errors and write.rank == highest[write.key].rank
    }


def _note(
    delivery: Delivery, write: PartWrite, fresh: Mapping[Register, PartWrite], known: Mapping[Register, KnownPart]
) -> LedgerNote:
    """What the ledger says of an event: the transaction decides for those that are written in it."""
    written = fresh.get(write.key)
    if written is not None and written.rank == write.rank:
        return LedgerNote(delivery, write.document_id, write.part, None)
    present = known.get(write.key)
    same = present is not None and present.rank.event_id == write.rank.event_id
    return LedgerNote(delivery, write.document_id, write.part, "searchable" if same else "superseded")


def _chunks(part: PreparedPart) -> int:
    return sum(len(step.chunks) for step in part.steps or ())


def _holds(part: PreparedPart, sha: str) -> bool:
    return any(chunk.embed_sha == sha for step in part.steps or () for chunk in step.chunks)
