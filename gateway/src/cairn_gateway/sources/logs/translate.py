"""Log records as events: one document per template, one part per batch that counts."""

from __future__ import annotations

import hashlib
from datetime import timedelta

import orjson

from cairn_gateway.sources.logs.records import LogRecord
from cairn_gateway.sources.logs.templates import Template, fold
from cairn_gateway.sources.model import Delivery, Translation
from cairn_shared.documents import text
from cairn_shared.documents.build import document_event
from cairn_shared.documents.times import microseconds
from cairn_shared.events import Event, SourceDocument

SOURCE = "logs"
_REFRESH = timedelta(minutes=5) // timedelta(microseconds=1)
"""The text of a template is written again at most about so often (microseconds); its counts always are."""


def translate_records(records: list[LogRecord], delivery: Delivery) -> Translation:
    """Two events per template: what it is (and samples of it), and how often this batch had it."""
    if not records:
        return Translation(ignored="no lines in it")
    batch = batch_id(records, delivery)
    events: list[Event] = []
    templates: dict[tuple[str | None, str], Template] = {}
    for template in fold(records):
        # Two clusters can end with the same text; they are one template.
        same = templates.setdefault((template.service, template.text), template)
        if same is not template:
            _merge(same, template)
    for template in templates.values():
        events += _events(template, batch, delivery)
    return Translation(events)


def batch_id(records: list[LogRecord], delivery: Delivery) -> str:
    """What tells a batch from its own repetition.

    The sender's `Idempotency-Key` if it sends one. Else the digest of the body, which is enough when every line has
    its time. Lines without time can be the same twice and mean two things: then the moment of arrival belongs to it.
    """
    digest = hashlib.sha256(delivery.body)
    if key := delivery.header("idempotency-key"):
        digest = hashlib.sha256(f"key|{key}".encode())
    elif any(record.at is None for record in records):
        digest.update(delivery.received_at.isoformat().encode())
    return digest.hexdigest()[:24]


def _merge(into: Template, other: Template) -> None:
    into.count += other.count
    into.samples = dict.fromkeys([*into.samples, *other.samples][:5])
    into.hosts |= other.hosts
    into.severity = into.severity or other.severity
    into.first_seen = min(filter(None, [into.first_seen, other.first_seen]), default=None)
    into.last_seen = max(filter(None, [into.last_seen, other.last_seen]), default=None)


def _events(template: Template, batch: str, delivery: Delivery) -> list[Event]:
    first = template.first_seen or delivery.received_at
    last = template.last_seen or delivery.received_at
    identity = template.id()
    subject = f"{template.service or 'unknown'}/{identity}"
    # What a template is changes little, so it is written once in a while. Of several descriptions in one interval the
    # highest digest wins, whatever their order: the last one would be written, and embedded, with every batch.
    described = _description(template)
    digest = hashlib.sha256(orjson.dumps(described.model_dump(mode="json"))).hexdigest()[:24]
    bucket = microseconds(last) // _REFRESH * _REFRESH
    counted = SourceDocument(
        title="",  # no text of its own, so nothing of it is searched
        part=f"batch-{batch}",
        service=template.service,
        severity=template.severity,
        count=template.count,
        first_seen=first,
        last_seen=last,
    )
    return [
        document_event(
            "log",
            document,
            source=SOURCE,
            source_id=f"{subject}|{source_id}",
            subject=subject,
            version=version,
            occurred_at=last,
            accepted_at=delivery.received_at,
        )
        for document, source_id, version in (
            (described, f"template|{bucket}|{digest}", bucket + int(digest[:12], 16) % _REFRESH),
            (counted, f"batch|{batch}", microseconds(last)),
        )
    ]


def _description(template: Template) -> SourceDocument:
    """The part that names the document and is searched. It counts nothing: the batches do."""
    first_line = template.text.partition("\n")[0]
    samples = "\n".join(template.samples).replace("```", "'''")
    return SourceDocument(
        title=text.title(f"{template.service}:" if template.service else "", first_line),
        body=text.body(
            f"Log lines like\n\n```\n{samples}\n```",
            {
                "Template": template.text if len(template.text) <= 1000 else None,
                "Severity": template.severity,
                "Service": template.service,
                "Hosts": ", ".join(template.hosts),
            },
        ),
        service=template.service,
        severity=template.severity,
        labels={"template": template.id()},
        count=0,
    )
