"""OTLP/HTTP logs, protobuf and JSON (opentelemetry.io, "OTLP Specification", OTLP/HTTP)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.json_format import MessageToJson, Parse, ParseError
from google.protobuf.message import DecodeError, Message
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from cairn_gateway.sources.errors import Malformed
from cairn_gateway.sources.logs.lines import MAX_TEXT
from cairn_gateway.sources.logs.otlp_pieces import Found, json_records, protobuf_records
from cairn_gateway.sources.logs.records import LogRecord, flat, severity_of
from cairn_shared.errors import InvalidInput

PROTOBUF = "application/x-protobuf"
JSON = "application/json"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# SeverityNumber: 1-4 trace, 5-8 debug, 9-12 info, 13-16 warn, 17-20 error, 21-24 fatal
_SEVERITIES = ("trace", "debug", "info", "warning", "error", "critical")


@dataclass(frozen=True)
class Exported:
    """The records with text, and how many had none or could not be read."""

    records: list[LogRecord]
    rejected: int


def media_type(content_type: str) -> str:
    """`application/json` or `application/x-protobuf`.

    Raises:
        InvalidInput: it is neither.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in {PROTOBUF, JSON}:
        raise InvalidInput(f"Content-Type must be {PROTOBUF} or {JSON}", field="Content-Type")
    return kind


def read_export(body: bytes, kind: str) -> Exported:
    """The log records of an ExportLogsServiceRequest; one that cannot be read costs no other.

    Raises:
        Malformed: it is not one.
    """
    if kind == JSON and not body.lstrip().startswith(b"{"):
        raise Malformed("the body is not a JSON object", field="body")
    request = ExportLogsServiceRequest()
    try:
        if kind == JSON:
            Parse(body, request, ignore_unknown_fields=True)
        else:
            request.ParseFromString(body)
        found: Iterable[Found] = _whole(request)
    except (DecodeError, ParseError, UnicodeDecodeError, RecursionError):
        try:
            found = list(json_records(body) if kind == JSON else protobuf_records(body))
        except (DecodeError, ValueError, RecursionError) as exc:
            raise Malformed("the body is not an ExportLogsServiceRequest", field="body") from exc
    records: list[LogRecord] = []
    rejected = 0
    for resource, one in found:
        record = None if one is None else _record(one, _attributes(resource))
        if record is None:
            rejected += 1
        else:
            records.append(record)
    return Exported(records, rejected)


def _whole(request: ExportLogsServiceRequest) -> Iterator[Found]:
    for resource_logs in request.resource_logs:
        for scope_logs in resource_logs.scope_logs:
            for one in scope_logs.log_records:
                yield resource_logs.resource, one


def _attributes(resource: Resource) -> dict[str, str]:
    return flat({one.key: _value(one.value) for one in resource.attributes})


def answer(rejected: int, kind: str) -> bytes:
    """The ExportLogsServiceResponse; with rejected records it says so as a partial success."""
    response = ExportLogsServiceResponse()
    if rejected:
        response.partial_success.rejected_log_records = rejected
        response.partial_success.error_message = (
            "log records that are not valid, or without a body and an event name, are not searchable"
        )
    return _encoded(response, kind)


def refusal(code: int, message: str, kind: str) -> bytes:
    """The google.rpc.Status that an error answer carries."""
    return _encoded(Status(code=code, message=message), kind)


def _encoded(message: Message, kind: str) -> bytes:
    if kind == JSON:
        return MessageToJson(message, indent=None).encode()
    return message.SerializeToString()


def _record(record: Any, resource: dict[str, str]) -> LogRecord | None:
    body = _value(record.body)
    attributes = flat({one.key: _value(one.value) for one in record.attributes})
    if isinstance(body, (dict, list)):
        body = " ".join(f"{name}={value}" for name, value in flat(body).items())
    # A record of an exception may have its text in the attributes only (semantic conventions, "Exceptions").
    exception = [attributes.get(f"exception.{name}") for name in ("type", "message", "stacktrace")]
    text = "\n".join(filter(None, [str(body) if body is not None else "", *exception])).strip()
    if not text and record.event_name:
        # An event may say all in its name and attributes (semantic conventions, "Events").
        text = " ".join([record.event_name, *(f"{name}={value}" for name, value in attributes.items())])
    if not text:
        return None
    nanoseconds = record.time_unix_nano or record.observed_time_unix_nano
    number = record.severity_number
    named = severity_of(record.severity_text) if record.severity_text else None
    return LogRecord(
        text=text[:MAX_TEXT],
        at=_EPOCH + timedelta(microseconds=nanoseconds // 1000) if nanoseconds else None,
        service=resource.get("service.name"),
        severity=_SEVERITIES[min((number - 1) // 4, 5)] if number else named,
        host=resource.get("host.name") or resource.get("k8s.pod.name"),
    )


def _value(value: Any) -> Any:
    """An AnyValue as a Python value; None when it is empty."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    if kind == "kvlist_value":
        return {one.key: _value(one.value) for one in value.kvlist_value.values}
    if kind == "bytes_value":
        return value.bytes_value.decode("utf-8", errors="replace")
    return getattr(value, kind) if kind else None
