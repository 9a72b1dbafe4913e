"""`/events`: CloudEvents 1.0 of anybody with an editor's key."""

from __future__ import annotations

from fastapi import APIRouter

from cairn_gateway.dependencies import Gateway, RequireEditor
from cairn_gateway.routes.problems import problems
from cairn_gateway.routes.raw import Accepted, RawDelivery, takes

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
