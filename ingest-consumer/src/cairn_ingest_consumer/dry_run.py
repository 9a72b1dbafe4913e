"""Trying a record without effect: decoded, rendered, cut and embedded by the code that would process it.

Only the write itself is left out. What it would decide is told from what the index holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from cairn_ingest_consumer.documents import render
from cairn_ingest_consumer.embedders import Embedders, Served
from cairn_ingest_consumer.embedding import embed_all, missing_texts
from cairn_ingest_consumer.errors import TextRefused
from cairn_ingest_consumer.indexing import IndexDocuments
from cairn_ingest_consumer.model import PIPELINE, KnownPart, PartWrite, PreparedPart
from cairn_ingest_consumer.ports import DocumentStore, EventHandler
from cairn_ingest_consumer.prepare import prepare
from cairn_shared.api.consumer import DryRunAnswer, DryRunQuery, DryRunRecord, DryRunResult, Verdict
from cairn_shared.errors import PermanentError, TransientError
from cairn_shared.events import Event, decode


class DryRun:
    """Tries records one after another: it must not take the consumer's time from what is waiting."""

    def __init__(
        self,
        handlers: Mapping[str, EventHandler],
        store: DocumentStore,
        embedders: Embedders,
        *,
        app_version: str,
        git_sha: str | None,
    ) -> None:
        self._handlers = handlers
        self._store = store
        self._embedders = embedders
        self._app_version = app_version
        self._git_sha = git_sha
        self._turn = asyncio.Lock()

    async def run(self, query: DryRunQuery) -> DryRunAnswer:
        """What would become of each record.

        Raises:
            TransientError: the embedder or PostgreSQL is away, so nothing can be said.
        """
        async with self._turn:
            results = [await self._one(record) for record in query.records]
        return DryRunAnswer(app_version=self._app_version, pipeline=PIPELINE, git_sha=self._git_sha, results=results)

    async def _one(self, record: DryRunRecord) -> DryRunResult:
        told = DryRunResult(id=record.id, ok=True)
        try:
            event = decode(record.value)
            told.event_id, told.event_type, told.version = event.event_id, event.type, event.version
            await self._handled(event, told)
        except TransientError:
            raise
        except Exception as exc:  # noqa: BLE001 - whatever the code of today does with it is what is asked
            told.ok, told.verdict = False, None
            told.stage = exc.stage if isinstance(exc, PermanentError) else "unknown"
            told.exception = f"{type(exc).__module__}.{type(exc).__qualname__}"
            told.reason = str(exc)[:1000]
        return told

    async def _handled(self, event: Event, told: DryRunResult) -> None:
        handler = self._handlers.get(event.type)
        if handler is None:
            raise PermanentError(f"type: nothing here handles {event.type}", stage="validate")
        if isinstance(handler, IndexDocuments):
            await self._document(event, told)
        else:
            event.body()
            told.verdict = "handled"

    async def _document(self, event: Event, told: DryRunResult) -> None:
        write = render(event)
        known = (await self._store.known_parts([write.key])).get(write.key)
        told.title = write.facts.title or None
        told.indexed_version = known.rank.version if known else None
        if not write.deleted:
            plan = await self._embedders.plan()
            part = await asyncio.to_thread(prepare, write, plan.main.model)
            told.steps = len(part.steps or ())
            told.chunks = sum(len(step.chunks) for step in part.steps or ())
            await _embed(part, plan.main)
        told.verdict = _verdict(write, known)


async def _embed(part: PreparedPart, served: Served) -> None:
    texts = list(missing_texts([part], {}).values())
    try:
        await embed_all(served.endpoint.embedder, texts, served.model.fingerprint)
    except TextRefused as exc:
        raise PermanentError(exc.detail, stage="embed") from exc


def _verdict(write: PartWrite, known: KnownPart | None) -> Verdict:
    """What the version guard would say."""
    if known is not None and known.rank > write.rank:
        return "superseded"
    if known is not None and known.rank == write.rank and known.pipeline >= PIPELINE and not write.rewrite:
        return "unchanged"
    return "deleted" if write.deleted else "searchable"
