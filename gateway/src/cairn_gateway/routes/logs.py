"""Log intake: `/webhooks/logs` for lines, `/v1/logs` for OTLP/HTTP."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from fastapi import APIRouter, Query, Response

from cairn_gateway.dependencies import Gateway, RequireEditor
from cairn_gateway.intake import unzipped
from cairn_gateway.routes.problems import problems
from cairn_gateway.routes.raw import Accepted, RawDelivery, takes
from cairn_gateway.sources.logs import otlp
from cairn_gateway.sources.logs.lines import read_lines
from cairn_gateway.sources.logs.translate import translate_records
from cairn_gateway.sources.model import Delivery, Translation
from cairn_shared.errors import CairnError, InvalidInput

router = APIRouter(tags=["webhooks"])

MAX_UNPACKED = 25 * 1024 * 1024

# google.rpc.Code of the statuses that are answered here
_CODES = {400: 3, 413: 3, 422: 3, 429: 8, 503: 14}


@router.post(
    "/webhooks/logs",
    status_code=202,
    response_model=Accepted,
    responses=problems(400, 413, 422),
    openapi_extra=takes("application/x-ndjson", "application/json", "text/plain"),
)
async def take_lines(
    delivery: RawDelivery,
    state: Gateway,
    _: RequireEditor,
    service: Annotated[
        str | None, Query(min_length=1, max_length=200, description="Whose lines they are, where they do not say.")
    ] = None,
) -> Accepted:
    """JSON lines, plain lines or a JSON array, also gzipped; folded into templates with counts.

    Lines without a time are counted again when the same body comes again, unless `Idempotency-Key` says that it is
    the same batch.
    """
    plain = _plain(delivery)
    return Accepted.of(
        await state.intake.logs(plain, lambda: translate_records(read_lines(plain.body, service), plain))
    )


@router.post(
    "/v1/logs",
    response_class=Response,
    responses=problems(400, 413, 422),
    openapi_extra=takes(otlp.PROTOBUF, otlp.JSON),
)
async def take_otlp(delivery: RawDelivery, state: Gateway, _: RequireEditor) -> Response:
    """An ExportLogsServiceRequest as protobuf or JSON, also gzipped. Records without text are a partial success."""
    kind = otlp.JSON if otlp.JSON in delivery.header("content-type").lower() else otlp.PROTOBUF
    rejected = 0

    def read() -> Translation:
        nonlocal rejected
        exported = otlp.read_export(plain.body, otlp.media_type(delivery.header("content-type")))
        rejected = exported.rejected
        return translate_records(exported.records, plain)

    try:
        plain = _plain(delivery)
        await state.intake.logs(plain, read)
    except CairnError as exc:
        if exc.status not in _CODES:
            raise
        # OTLP asks for 400 where the data is bad: an exporter must not send it again.
        status = 400 if isinstance(exc, InvalidInput) and exc.status == 422 else exc.status
        headers = {"Retry-After": "2"} if status == 503 else None
        return Response(otlp.refusal(_CODES[exc.status], exc.detail, kind), status, headers, kind)
    return Response(otlp.answer(rejected, kind), 200, media_type=kind)


def _plain(delivery: Delivery) -> Delivery:
    return dataclasses.replace(
        delivery, body=unzipped(delivery.body, delivery.header("content-encoding"), MAX_UNPACKED)
    )
