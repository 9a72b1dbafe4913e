"""`/backfill/{source}`: history, in the shapes of the webhooks, read by the same translators."""

from __future__ import annotations

import json
import uuid
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from cairn_gateway.dependencies import Gateway, RequireOperator
from cairn_gateway.routes.guarded import GuardedRoute
from cairn_gateway.routes.problems import problems
from cairn_gateway.sources.model import Delivery

router = APIRouter(prefix="/backfill", tags=["webhooks"], route_class=GuardedRoute)

MAX_ITEMS = 200


class BackfillItem(BaseModel):
    """One payload as its webhook would carry it; `event` is the webhook's type, where it has one in a header."""

    model_config = ConfigDict(extra="forbid")

    event: Annotated[str, Field(max_length=100)] = ""
    payload: dict[str, Any]


class BackfillBody(BaseModel):
    """Some history. Sending it again makes no new events: the same payload has the same ids."""

    model_config = ConfigDict(extra="forbid")

    items: Annotated[list[BackfillItem], Field(min_length=1, max_length=MAX_ITEMS)]


class RejectedItem(BaseModel):
    """An item that could not be read; the others are kept."""

    index: int
    detail: str
    field: str | None = None


class Backfilled(BaseModel):
    """What came of the items."""

    event_ids: list[uuid.UUID]
    ignored: int
    rejected: list[RejectedItem]


@router.post("/{source}", status_code=202, response_model=Backfilled, responses=problems(400, 413, 422))
async def backfill(
    source: Literal["github", "gitlab", "jira"], body: BackfillBody, state: Gateway, _: RequireOperator
) -> Backfilled:
    """Take history as events of `source`, the same documents as its webhooks write."""
    now = state.clock.now()
    deliveries = [
        Delivery(
            {"x-github-event": item.event, "x-gitlab-event": item.event, "content-type": "application/json"},
            json.dumps(item.payload, sort_keys=True).encode(),
            now,
        )
        for item in body.items
    ]
    taken = await state.intake.history(source, deliveries)
    return Backfilled(
        event_ids=[event.event_id for event in taken.events],
        ignored=taken.ignored,
        rejected=[
            RejectedItem(index=index, detail=exc.detail, field=exc.field)
            for index, exc in sorted(taken.rejected.items())
        ],
    )
