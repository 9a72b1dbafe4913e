"""`/events`: CloudEvents 1.0 of anybody with an editor's key; and what came in, for readers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from cairn_gateway.dependencies import Gateway, RequireEditor, RequireReader
from cairn_gateway.routes.problems import problems
from cairn_gateway.routes.raw import Accepted, RawDelivery, takes
from cairn_shared.api.fields import Moment
from cairn_shared.api.index import SettledEvents

router = APIRouter(tags=["webhooks"])


@router.post(
    "/events",
    status_code=202,
    response_model=Accepted,
    responses=problems(400, 413, 422),
    openapi_extra=takes("application/cloudevents+json", "application/cloudevents-batch+json", "application/json"),
)
async def take_events(delivery: RawDelivery, state: Gateway, _: RequireEditor) -> Accepted:
    """One CloudEvent (structured or binary), or a batch. The attribute `cairnkind` says what it is to Cairn."""
    return Accepted.of(await state.intake.events(delivery))


@router.get("/events", response_model=SettledEvents, responses=problems(422))
async def list_events(
    state: Gateway,
    _: RequireReader,
    since: Moment | None = None,
    limit: Annotated[int, Query(ge=1, le=5000)] = 100,
) -> SettledEvents:
    """Events as they were settled (searchable, superseded, dead): the first since a time, or the last of all.

    Events of long transactions may appear a few seconds late among others: who follows should ask with some overlap.
    """
    return await state.settlements.events(since, limit)
