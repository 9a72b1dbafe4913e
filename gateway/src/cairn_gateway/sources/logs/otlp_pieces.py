"""An ExportLogsServiceRequest record by record, for a batch that cannot be read as a whole.

protobuf refuses a message for one string in it that is not valid UTF-8 (or, in JSON, that has half a surrogate pair).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeVar

from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

Found = tuple[Resource, LogRecord | None]
"""A resource and a record of it; None: the record cannot be read."""

M = TypeVar("M", bound=Message)

_BYTES = 2
"""Wire type of what has a length."""


def json_records(body: bytes) -> Iterator[Found]:
    """The records of a body as JSON.

    Raises:
        ValueError: the body is not such JSON.
    """
    for of_resource in _list(json.loads(body.decode(errors="surrogateescape")), "resourceLogs", "resource_logs"):
        resource = _from_json(_member(of_resource, "resource"), Resource()) or Resource()
        for of_scope in _list(of_resource, "scopeLogs", "scope_logs"):
            for one in _list(of_scope, "logRecords", "log_records"):
                yield resource, _from_json(one, LogRecord())


def _list(value: Any, *names: str) -> list[Any]:
    found = _member(value, *names)
    if found is not None and not isinstance(found, list):
        raise ValueError(f"{names[0]} is not a list")
    return found or []


def _member(value: Any, *names: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004 - of the body, not of a caller's argument
    return next((value[name] for name in names if name in value), None)


def _from_json(value: Any, message: M) -> M | None:
    try:
        return ParseDict(value or {}, message, ignore_unknown_fields=True)
    except (ParseError, ValueError, TypeError, AttributeError):
        return None


def protobuf_records(body: bytes) -> Iterator[Found]:
    """The records of a body in the wire format; field numbers as in `opentelemetry/proto`.

    Raises:
        DecodeError: the body is not in it.
    """
    for resource_logs in _fields(body).get(1, ()):
        of_resource = _fields(resource_logs)
        (described, *_) = of_resource.get(1, [b""])
        resource = _from_wire(described, Resource()) or Resource()
        for scope_logs in of_resource.get(2, ()):
            for one in _fields(scope_logs).get(2, ()):
                yield resource, _from_wire(one, LogRecord())


def _fields(data: bytes) -> dict[int, list[bytes]]:
    """The parts with a length, by field number: to a message without fields all are unknown."""
    found: dict[int, list[bytes]] = {}
    unknown: Any = UnknownFieldSet(Empty.FromString(data))
    for field in unknown:
        if field.wire_type == _BYTES:
            found.setdefault(field.field_number, []).append(field.data)
    return found


def _from_wire(data: bytes, message: M) -> M | None:
    try:
        message.ParseFromString(data)
    except DecodeError:
        return None
    return message
