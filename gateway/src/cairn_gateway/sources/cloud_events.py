"""CloudEvents 1.0 over HTTP: structured, binary and batch (cloudevents.io, "HTTP Protocol Binding").

An event without `subject` is a document. Events with the same source and subject are parts of one document, which
is named after the latest of them. The kind of document is the extension attribute `cairnkind`, or follows from the
words of `type`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, get_args

import orjson
from cloudevents.core.bindings.http import HTTPMessage, from_binary
from cloudevents.core.exceptions import BaseCloudEventException, CloudEventValidationError
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from cairn_gateway.sources.errors import Malformed
from cairn_gateway.sources.logs.records import flat, time_of
from cairn_gateway.sources.model import Delivery, Translation
from cairn_shared.documents import text
from cairn_shared.documents.build import document_event
from cairn_shared.documents.references import references
from cairn_shared.documents.times import version
from cairn_shared.errors import InvalidInput
from cairn_shared.events import Event, EventType, SourceDocument

MAX_BATCH = 1000
_REQUIRED = ("specversion", "id", "source", "type")
_KINDS: tuple[EventType, ...] = (
    "commit",
    "pull_request",
    "issue",
    "ticket",
    "comment",
    "deployment",
    "alert",
    "log",
)
assert set(_KINDS) <= set(get_args(EventType))
_WORDS: tuple[tuple[str, EventType], ...] = (
    (r"alert|incident|alarm|outage|anomaly", "alert"),
    (r"deploy|release|rollout|rollback|pipeline|workflow|build|service\.(?:upgraded|removed)", "deployment"),
    (r"pull_?request|merge_?request|change\.(?:created|merged)", "pull_request"),
    (r"commit|push", "commit"),
    (r"ticket|issue|task", "ticket"),
)
_TITLE = ("title", "summary", "name", "subject")
_PROSE = ("body", "message", "description", "text", "details")


def translate(delivery: Delivery) -> Translation:
    """The events of one request; `source` and `id` make a redelivery the same event.

    Raises:
        Malformed, InvalidInput: the request is no CloudEvent 1.0; the attribute is named, in a batch with its index.
    """
    found = _read(delivery)
    return (
        Translation([event for one in found for event in _events(one, delivery)])
        if found
        else Translation(ignored="an empty batch")
    )


def _read(delivery: Delivery) -> list[CloudEvent]:
    kind = delivery.header("content-type").partition(";")[0].strip().lower()
    if kind == "application/cloudevents-batch+json":
        batch = _loads(delivery.body)
        if not isinstance(batch, list):
            raise InvalidInput("body: a batch is a JSON array", field="body")
        if len(batch) > MAX_BATCH:
            raise InvalidInput(f"body: at most {MAX_BATCH} events in a batch", field="body")
        return [_structured(one, f"{index}.") for index, one in enumerate(batch)]
    if kind == "application/cloudevents+json":
        return [_structured(_loads(delivery.body), "")]
    if kind.startswith("application/cloudevents"):
        raise InvalidInput("Content-Type: of the event formats JSON is taken", field="Content-Type")
    return [_binary(delivery)]


def _structured(value: Any, at: str) -> CloudEvent:
    if not isinstance(value, dict):
        raise InvalidInput(f"{at}event: must be a JSON object", field=f"{at}event")
    _check(value, at)
    return _made(lambda: JSONFormat().read(CloudEvent, orjson.dumps(value)), at)


def _binary(delivery: Delivery) -> CloudEvent:
    attributes = {name[3:]: value for name, value in delivery.headers.items() if name.startswith("ce-")}
    _check(attributes, "ce-")
    message = HTTPMessage(headers=dict(delivery.headers), body=delivery.body)
    return _made(lambda: from_binary(message, JSONFormat(), CloudEvent), "ce-")


def _check(attributes: Mapping[str, Any], at: str) -> None:
    # The library fills in what is missing; a sender that forgets `id` must hear of it, or repetitions are new events.
    for name in _REQUIRED:
        if not isinstance(attributes.get(name), str) or not attributes[name]:
            raise InvalidInput(f"{at}{name}: this attribute is required", field=f"{at}{name}")
    if attributes["specversion"] != "1.0":
        raise InvalidInput(f"{at}specversion: 1.0 is taken", field=f"{at}specversion")


def _made(read: Any, at: str) -> CloudEvent:
    try:
        event = read()
    except CloudEventValidationError as exc:
        name = next(iter(exc.errors), "event")
        raise InvalidInput(f"{at}{name}: not valid in CloudEvents 1.0", field=f"{at}{name}") from exc
    except BaseCloudEventException as exc:
        raise InvalidInput(f"{at}event: not a CloudEvent", field=f"{at}event") from exc
    except (ValueError, TypeError, AttributeError, RecursionError) as exc:
        raise Malformed(f"{at}event: an attribute or the data cannot be read", field=f"{at}event") from exc
    assert isinstance(event, CloudEvent)
    return event


def _loads(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        raise Malformed("the body is not valid JSON", field="body") from exc


def _events(event: CloudEvent, delivery: Delivery) -> list[Event]:
    attributes = event.get_attributes()
    given = attributes.get("time") if isinstance(attributes.get("time"), datetime) else None
    at = given if isinstance(given, datetime) and given.tzinfo else None
    kind = _kind(attributes)
    identity, subject = str(attributes["id"]), attributes.get("subject")
    document = _document(event, attributes, at)
    documents = [("", document)]
    if subject:
        part = f"event-{text.clip(text.key(identity), 200)}"
        named = SourceDocument(
            title=text.title(str(subject), f"({document.title})"),
            body=text.body(
                None, {"Latest": document.title, "Type": str(attributes["type"]), "Status": document.status}
            ),
            url=document.url,
            service=document.service,
            severity=document.severity,
            status=document.status,
            labels=document.labels,
            count=0,
        )
        documents = [("", named), (part, document.model_copy(update={"part": part}))]
    return [
        document_event(
            kind,
            one,
            # Nobody may write to the documents of GitHub by calling himself so.
            source=text.clip(f"ce:{text.key(event.get_source())}", 200),
            source_id=f"{identity}|{part}",
            subject=str(subject) if subject else identity,
            version=version(at) if at else 0,
            occurred_at=at or delivery.received_at,
            accepted_at=delivery.received_at,
        )
        for part, one in documents
    ]


def _kind(attributes: Mapping[str, Any]) -> EventType:
    stated = str(attributes.get("cairnkind", "")).lower()
    if stated:
        for kind in _KINDS:
            if kind == stated:
                return kind
        raise InvalidInput(f"cairnkind: one of {', '.join(_KINDS)}", field="cairnkind")
    name = str(attributes["type"]).lower()
    return next((kind for pattern, kind in _WORDS if re.search(pattern, name)), "log")


def _document(event: CloudEvent, attributes: Mapping[str, Any], at: datetime | None) -> SourceDocument:
    data = event.get_data()
    if isinstance(data, bytes):
        data = data.decode("utf-8", errors="replace")
    fields = flat(data) if isinstance(data, (dict, list)) else {}
    prose = data if isinstance(data, str) else next((fields[name] for name in _PROSE if name in fields), None)
    named = next((fields[name] for name in _TITLE if name in fields), None) or (prose or "").partition("\n")[0]
    shown = {name: value for name, value in fields.items() if name not in _PROSE and value != named}
    return SourceDocument(
        title=text.title(named) or str(attributes["type"]),
        body=text.body(
            prose,
            {
                "Type": str(attributes["type"]),
                "Source": str(attributes["source"]),
                "Subject": str(attributes["subject"]) if attributes.get("subject") else None,
                "Time": at.isoformat() if at else None,
                **shown,
            },
        ),
        url=fields.get("url") or fields.get("html_url") or fields.get("link"),
        service=fields.get("service") or fields.get("service.name"),
        severity=fields.get("severity") or fields.get("level"),
        status=fields.get("status") or fields.get("state"),
        author=fields.get("author") or fields.get("user"),
        labels={name.removeprefix("labels."): value for name, value in fields.items() if name.startswith("labels.")},
        references=references([named, prose, *fields.values()]),
        first_seen=time_of(fields.get("first_seen")) or at,
        last_seen=at,
    )
