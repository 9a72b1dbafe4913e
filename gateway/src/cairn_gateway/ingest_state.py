"""What became of an event: what MongoDB and the receipts know, and above all the index's ledger."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from cairn_gateway.model import Entry
from cairn_gateway.ports import Ledger, Receipts, Spool
from cairn_gateway.schemas.operations import IngestState
from cairn_shared.api.index import LedgerEntry
from cairn_shared.errors import TransientError


async def ingest_states(
    event_ids: Collection[uuid.UUID], index: Ledger, spools: Sequence[Spool], receipts: Receipts
) -> dict[uuid.UUID, IngestState]:
    """The states of those events that are known, by id.

    Raises:
        TransientError: the retriever is away and an event is known nowhere else, or MongoDB is away.
    """
    ledger, receipted, found = await asyncio.gather(
        _ledger(index, event_ids),
        receipts.recall(event_ids),
        asyncio.gather(*(spool.find(event_ids) for spool in spools)),
    )
    entries: dict[uuid.UUID, Entry] = {}
    for known in found:
        entries |= known
    failure = ledger if isinstance(ledger, TransientError) else None
    settled: Mapping[uuid.UUID, LedgerEntry] = {} if isinstance(ledger, TransientError) else ledger
    states: dict[uuid.UUID, IngestState] = {}
    for event_id in event_ids:
        entry, at = entries.get(event_id), receipted.get(event_id)
        state = combine(event_id, settled.get(event_id), entry, at, index_asked=failure is None)
        if state is not None:
            states[event_id] = state
        elif failure is not None:
            raise failure
    return states


async def _ledger(index: Ledger, event_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, LedgerEntry] | TransientError:
    try:
        return await index.ledger(event_ids)
    except TransientError as exc:
        return exc


def combine(
    event_id: uuid.UUID,
    settled: LedgerEntry | None,
    entry: Entry | None,
    receipt: datetime | None,
    *,
    index_asked: bool,
) -> IngestState | None:
    """One event's state, None if nobody knows it. The index has the last word."""
    if settled is None and entry is None and receipt is None:
        return None
    state = IngestState(event_id=event_id, state="queued", accepted_at=receipt)
    if entry is not None:
        state = state.model_copy(
            update={
                "state": _state_of(entry),
                "type": entry.type,
                "source": entry.source,
                "subject": entry.subject,
                "version": entry.version,
                "accepted_at": entry.accepted_at,
                "published_at": entry.published_at,
                "settled_at": entry.settled_at,
                "attempts": entry.attempts,
                "detail": entry.detail,
            }
        )
    if settled is not None:
        return state.model_copy(
            update={
                "state": settled.state,
                "document_id": settled.document_id,
                "version": settled.version if settled.version is not None else state.version,
                "accepted_at": settled.accepted_at or state.accepted_at,
                "settled_at": settled.settled_at,
                "detail": settled.detail,
            }
        )
    if not index_asked and state.state in ("accepted", "queued"):
        return state.model_copy(update={"detail": "the index cannot be asked now; it may be further than this"})
    return state


def _state_of(entry: Entry) -> str:
    if entry.outcome is not None:
        return entry.outcome
    if entry.published_at is not None:
        return "queued"
    return "accepted"
