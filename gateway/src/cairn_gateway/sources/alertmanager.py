"""Alertmanager's webhook (prometheus.io, "Alerting / Configuration", `webhook_config`), and Grafana's, which sends the
same and more (grafana.com, "Configure the webhook notifier"). What version it calls itself does not matter.

One document per alert (its fingerprint), which says what the alert is and whether it fires; one part per episode
(its `startsAt`) that only counts.

What orders its states is when they reached us. Nothing in a payload does: `startsAt` stays the same while annotations
change, stays the same when an alert that Alertmanager had timed out fires again, and moves back when another replica of
Prometheus had seen it earlier. One Alertmanager sends one state after the other, so the order of arrival is its own.
But of several in a cluster, one may repeat "firing" when another has said "resolved" (prometheus/alertmanager#2768),
at most its wait for its peers later. So "firing" speaks for `STALE` ago, but never for before the alert began, unless
it comes from the very sender that said "resolved" last: that one knows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import orjson
from pydantic import Field, StringConstraints

from cairn_gateway.sources.incoming import Incoming, Texts, Time, parse
from cairn_gateway.sources.model import Delivery, Telling, Translation
from cairn_shared.documents import text
from cairn_shared.documents.build import document_event
from cairn_shared.documents.references import references
from cairn_shared.documents.times import microseconds
from cairn_shared.events import Event, SourceDocument

SOURCE = "alertmanager"
_SERVICE_LABELS = ("service", "app", "app_kubernetes_io_name", "deployment", "job", "namespace")
STALE = timedelta(seconds=60)
"""How late another member of a cluster may still say "firing": `peer_timeout` (15 s) for each that is before it."""
_NEVER = datetime(1971, 1, 1, tzinfo=UTC)


class Alert(Incoming):
    status: Literal["firing", "resolved"]
    labels: Texts
    annotations: Texts = Field(default_factory=dict)
    startsAt: Time | None = None  # noqa: N815 - Alertmanager's name
    endsAt: Time | None = None  # noqa: N815 - Alertmanager's name
    generatorURL: str | None = None  # noqa: N815 - Alertmanager's name
    valueString: str | None = None  # noqa: N815 - Grafana's name
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
    alerts: list[Alert]
    receiver: str | None = None
    groupKey: str | None = None  # noqa: N815 - Alertmanager's name
    externalURL: str | None = None  # noqa: N815 - Alertmanager's name
    truncatedAlerts: int = 0  # noqa: N815 - Alertmanager's name


def translate(delivery: Delivery) -> Translation:
    """Two events per alert: its present state, and its episode.

    Raises:
        Malformed, InvalidInput: the payload cannot be read, or none of its alerts says what it is about.
    """
    payload = parse(Payload, delivery.body)
    events = [event for alert in payload.alerts for event in _events(alert, payload, delivery)]
    notes = []
    if payload.truncatedAlerts:
        notes.append(f"{payload.truncatedAlerts} alerts were cut off by `max_alerts` of the receiver")
    if not events:
        return Translation(ignored="no alerts in it", notes=notes).without(payload)
    sender = _digest([delivery.peer, payload.externalURL, payload.receiver, payload.groupKey])[:24]
    tellings = tuple(Telling(alert.key(), sender, over=alert.status == "resolved") for alert in payload.alerts)
    return Translation(events, notes=notes, tellings=tellings).without(payload)


def informed(translation: Translation, resolved_by: Mapping[str, str], received_at: datetime) -> list[Event]:
    """The events, given who said last that which alert is over: "firing" from that sender is no stale repeat."""
    known = {one.subject for one in translation.tellings if resolved_by.get(one.subject) == one.sender}
    return [
        event.model_copy(update={"version": microseconds(received_at)}) if event.subject in known else event
        for event in translation.events
    ]


def _events(alert: Alert, payload: Payload, delivery: Delivery) -> list[Event]:
    key, name = alert.key(), alert.labels.get("alertname", "alert")
    ended = alert.ended()
    state = _state(alert, name, payload)
    # A state can come back, and then it is news: the moment of arrival belongs to what is said.
    sent = _digest([alert.model_dump(mode="json"), payload.externalURL, delivery.received_at.isoformat()])
    documents = {"": state}
    if alert.startsAt:
        # No text of its own: a flapping alert must not fill the index with copies of itself.
        episode = f"episode-{microseconds(alert.startsAt)}"
        documents[episode] = SourceDocument(
            title="",
            part=episode,
            status=alert.status,
            severity=state.severity,
            service=state.service,
            count=1,
            first_seen=alert.startsAt,
            last_seen=ended or alert.startsAt,
        )
    return [
        document_event(
            "alert",
            document,
            source=SOURCE,
            source_id=f"{key}|{part}|{sent}",
            subject=key,
            version=microseconds(_speaks_for(alert, delivery.received_at)),
            occurred_at=alert.startsAt or delivery.received_at,
            accepted_at=delivery.received_at,
        )
        for part, document in documents.items()
    ]


def _speaks_for(alert: Alert, received_at: datetime) -> datetime:
    if alert.status == "resolved":
        return received_at
    return max(min(alert.startsAt or received_at - STALE, received_at), received_at - STALE)


def _digest(value: object) -> str:
    return hashlib.sha256(orjson.dumps(value)).hexdigest()


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
                "Since": alert.startsAt.isoformat() if alert.startsAt else None,
                "Resolved": ended.isoformat() if ended else None,
                "Runbook": runbook,
                "Value": alert.valueString,
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
