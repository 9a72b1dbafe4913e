"""Alertmanager's webhook, version 4 (prometheus.io, "Alerting / Configuration", `webhook_config`).

One document per alert (its fingerprint), which says what the alert is and whether it fires; one part per episode
(its `startsAt`) that only counts. A group is sent again and again while it fires: an unchanged alert is the same
event every time.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Annotated, Literal

import orjson
from pydantic import Field, StringConstraints

from cairn_gateway.sources.incoming import Incoming, Texts, Time, parse
from cairn_gateway.sources.model import Delivery, Translation
from cairn_shared.documents import text
from cairn_shared.documents.build import document_event
from cairn_shared.documents.references import references
from cairn_shared.documents.times import microseconds
from cairn_shared.errors import InvalidInput
from cairn_shared.events import Event, SourceDocument

SOURCE = "alertmanager"
_SERVICE_LABELS = ("service", "app", "app_kubernetes_io_name", "deployment", "job", "namespace")
_NEVER = datetime(1971, 1, 1, tzinfo=UTC)


class Alert(Incoming):
    status: Literal["firing", "resolved"]
    labels: Texts
    annotations: Texts = Field(default_factory=dict)
    startsAt: Time  # noqa: N815 - Alertmanager's name
    endsAt: Time | None = None  # noqa: N815 - Alertmanager's name
    generatorURL: str | None = None  # noqa: N815 - Alertmanager's name
    fingerprint: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = None

    def key(self) -> str:
        """The fingerprint; older senders have none, then the digest of the labels, which is what it is made of."""
        if self.fingerprint:
            return self.fingerprint
        return hashlib.sha256(orjson.dumps(self.labels, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]

    def ended(self) -> datetime | None:
        """When it was resolved; a firing alert has year 1, or a time-out in the future, there."""
        return self.endsAt if self.status == "resolved" and self.endsAt and self.endsAt > _NEVER else None


class Payload(Incoming):
    version: str = "4"
    alerts: list[Alert]
    receiver: str | None = None
    externalURL: str | None = None  # noqa: N815 - Alertmanager's name
    truncatedAlerts: int = 0  # noqa: N815 - Alertmanager's name


def translate(delivery: Delivery) -> Translation:
    """Two events per alert: its present state, and its episode.

    Raises:
        Malformed, InvalidInput: the payload cannot be read, lacks a field, or is of another version.
    """
    payload = parse(Payload, delivery.body)
    if payload.version != "4":
        raise InvalidInput(f"version {payload.version[:20]} is not known, version 4 is", field="version")
    events = [event for alert in payload.alerts for event in _events(alert, payload, delivery)]
    notes = []
    if payload.truncatedAlerts:
        notes.append(f"{payload.truncatedAlerts} alerts were cut off by `max_alerts` of the receiver")
    if not events:
        return Translation(ignored="no alerts in it", notes=notes)
    return Translation(events, notes=notes)


def _events(alert: Alert, payload: Payload, delivery: Delivery) -> list[Event]:
    key, name = alert.key(), alert.labels.get("alertname", "alert")
    starts = microseconds(alert.startsAt)
    ended = alert.ended()
    episode = f"episode-{starts}"
    state = _state(alert, name, payload)
    # What is the same in every repetition makes the id, so the repetitions are one event.
    sent = hashlib.sha256(orjson.dumps([alert.model_dump(mode="json"), payload.externalURL])).hexdigest()
    documents = {
        "": state,
        # No text of its own: a flapping alert must not fill the index with copies of itself.
        episode: SourceDocument(
            title="",
            part=episode,
            status=alert.status,
            severity=state.severity,
            service=state.service,
            count=1,
            first_seen=alert.startsAt,
            last_seen=ended or alert.startsAt,
        ),
    }
    return [
        document_event(
            "alert",
            document,
            source=SOURCE,
            source_id=f"{key}|{part}|{sent}",
            subject=key,
            version=starts + (1 if alert.status == "resolved" else 0),
            occurred_at=alert.startsAt,
            accepted_at=delivery.received_at,
        )
        for part, document in documents.items()
    ]


def _state(alert: Alert, name: str, payload: Payload) -> SourceDocument:
    """The alert as it is now: the part that names the document and is searched. Episodes count, this one does not."""
    labels, annotations = alert.labels, alert.annotations
    ended = alert.ended()
    runbook = annotations.get("runbook_url") or annotations.get("runbook")
    summary = annotations.get("summary") or annotations.get("message")
    prose = "\n\n".join(dict.fromkeys(filter(None, [summary, annotations.get("description")])))
    others = {
        key: value
        for key, value in annotations.items()
        if key not in {"summary", "message", "description", "runbook_url", "runbook"}
    }
    return SourceDocument(
        title=text.title(f"{name}:", summary or f"alert {alert.status}"),
        body=text.body(
            prose,
            {
                "Alert": name,
                "Status": alert.status,
                "Severity": labels.get("severity"),
                "Since": alert.startsAt.isoformat(),
                "Resolved": ended.isoformat() if ended else None,
                "Runbook": runbook,
                **others,
                "Receiver": payload.receiver,
            },
            {"Labels": (f"{key}={value}" for key, value in sorted(labels.items()))},
        ),
        url=alert.generatorURL or payload.externalURL,
        service=next((labels[label] for label in _SERVICE_LABELS if labels.get(label)), None),
        severity=labels.get("severity"),
        status=alert.status,
        labels={**labels, "alertname": name},
        references=list(dict.fromkeys([*([runbook] if runbook else []), *references(annotations.values())])),
        count=0,
        first_seen=alert.startsAt,
        last_seen=ended or alert.startsAt,
    )
