"""`/ingest`: what became of an event."""

from __future__ import annotations

import uuid

from fastapi import APIRouter

from cairn_gateway.dependencies import Gateway, RequireReader
from cairn_gateway.ingest_state import ingest_states
from cairn_gateway.routes.guarded import GuardedRoute
from cairn_gateway.routes.problems import problems
from cairn_gateway.schemas.operations import IngestState, StatesAnswer, StatesBody
from cairn_shared.errors import NotFound

router = APIRouter(prefix="/ingest", tags=["ingest"], route_class=GuardedRoute)


@router.get("/{event_id}", response_model=IngestState, responses=problems(404, 422))
async def get_state(event_id: uuid.UUID, state: Gateway, _: RequireReader) -> IngestState:
    """How far an event has come: accepted, queued, searchable, superseded or dead."""
    states = await ingest_states([event_id], state.index, state.spools, state.receipts)
    if event_id not in states:
        raise NotFound(f"there is no event {event_id}")
    return states[event_id]


@router.post("/states", response_model=StatesAnswer, responses=problems(400, 422))
async def get_states(body: StatesBody, state: Gateway, _: RequireReader) -> StatesAnswer:
    """The same for up to 1000 events at once."""
    wanted = list(dict.fromkeys(body.event_ids))
    states = await ingest_states(wanted, state.index, state.spools, state.receipts)
    return StatesAnswer(
        states={str(event_id): known for event_id, known in states.items()},
        unknown=[event_id for event_id in wanted if event_id not in states],
    )
