"""Requests as deliveries: the raw bytes, before anything reads them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request
from pydantic import BaseModel, Field

from cairn_gateway.dependencies import Gateway
from cairn_gateway.intake import Taken
from cairn_gateway.sources.model import Delivery


class Accepted(BaseModel):
    """Everything in the delivery is kept. `GET /ingest/{event_id}` tells when it is searchable."""

    event_ids: Annotated[list[str], Field(description="In the order of the delivery.")]
    ignored: Annotated[str | None, Field(description="Why nothing came of it.")] = None
    notes: Annotated[list[str], Field(description="What an operator should know of it.")] = []

    @classmethod
    def of(cls, taken: Taken) -> Accepted:
        return cls(event_ids=taken.event_ids, ignored=taken.ignored, notes=taken.notes)


async def _delivery(request: Request, state: Gateway) -> Delivery:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in request.headers.raw}
    body = await request.body()
    return Delivery(headers, body, state.arrivals.now(), request.client.host if request.client else "")


RawDelivery = Annotated[Delivery, Depends(_delivery)]


def takes(*media: str) -> dict[str, Any]:
    """What the API's description says of a raw body."""
    return {"requestBody": {"required": True, "content": {kind: {"schema": {}} for kind in media}}}
