"""PagerDuty's webhooks, version 3 (developer.pagerduty.com, "Webhooks"): one document an incident, one part a note."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints, ValidationError

from cairn_gateway.sources.incoming import Incoming, Time, invalid, parse
from cairn_gateway.sources.model import Delivery, Translation
from cairn_shared.documents import text
from cairn_shared.documents.build import document_event
from cairn_shared.documents.references import references
from cairn_shared.documents.times import version
from cairn_shared.errors import InvalidInput
from cairn_shared.events import Event, SourceDocument

SOURCE = "pagerduty"
_RANKS = {"incident.triggered": 0, "incident.resolved": 900}
_NOTES = {"incident_note": "note", "incident_status_update": "update"}


class Reference(Incoming):
    """How PagerDuty names another object."""

    id: str | None = None
    summary: str | None = None
    html_url: str | None = None


class Data(Incoming):
    """An incident, or a note or status update that points to one."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    type: str = "incident"
    html_url: str | None = None
    number: int | None = None
    status: str | None = None
    title: str | None = None
    urgency: str | None = None
    created_at: Time | None = None
    incident_key: str | None = None
    service: Reference | None = None
    priority: Reference | None = None
    escalation_policy: Reference | None = None
    assignees: list[Reference] | None = None
    teams: list[Reference] | None = None
    resolve_reason: Reference | None = None
    incident: Reference | None = None
    content: str | None = None
    message: str | None = None


class Happened(Incoming):
    id: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    event_type: Annotated[str, StringConstraints(min_length=1)]
    occurred_at: Time
    agent: Reference | None = None
    data: dict[str, Any] | None = None


class Payload(Incoming):
    event: Annotated[Happened, Field(description="Version 3 has exactly one event in a delivery.")]


def translate(delivery: Delivery) -> Translation:
    """The event of one delivery; its own id stays the same when PagerDuty tries again.

    Raises:
        Malformed, InvalidInput: the payload cannot be read or lacks a field.
    """
    happened = parse(Payload, delivery.body).event
    if happened.event_type == "pagey.ping":
        return Translation(ignored="ping")
    if not happened.event_type.startswith("incident."):
        return Translation(ignored=f"event type {happened.event_type[:60]}")
    data = _data(happened)
    if data.type in _NOTES:
        return Translation([_note_event(happened, data, delivery)])
    if data.type != "incident":
        return Translation(ignored=f"data of type {data.type[:60]}")
    return Translation([_incident_event(happened, data, delivery)])


def _data(happened: Happened) -> Data:
    # Other resources have other data, so it is read only when it is known to be about an incident.
    if happened.data is None:
        raise InvalidInput("event.data: this event needs it", field="event.data")
    try:
        return Data.model_validate(happened.data)
    except ValidationError as exc:
        raise invalid(exc, "event.data") from exc


def _incident_event(happened: Happened, incident: Data, delivery: Delivery) -> Event:
    service = _shown(incident.service)
    assignees = ", ".join(filter(None, map(_shown, incident.assignees or [])))
    return document_event(
        "alert",
        SourceDocument(
            title=text.title(f"Incident #{incident.number}:" if incident.number else "Incident:", incident.title),
            body=text.body(
                None,
                {
                    "Incident": incident.id,
                    "Status": incident.status,
                    "Last event": happened.event_type,
                    "By": _shown(happened.agent),
                    "Service": service,
                    "Urgency": incident.urgency,
                    "Priority": _shown(incident.priority),
                    "Escalation policy": _shown(incident.escalation_policy),
                    "Assigned to": assignees,
                    "Teams": ", ".join(filter(None, map(_shown, incident.teams or []))),
                    "Key": incident.incident_key,
                    "Triggered": incident.created_at.isoformat() if incident.created_at else None,
                    "Reason": _shown(incident.resolve_reason),
                },
            ),
            url=incident.html_url,
            service=service,
            severity=_shown(incident.priority) or incident.urgency,
            status=incident.status,
            references=references([incident.title, incident.incident_key]),
            first_seen=incident.created_at,
            last_seen=happened.occurred_at,
        ),
        source=SOURCE,
        source_id=happened.id,
        subject=incident.id,
        version=version(happened.occurred_at, _RANKS.get(happened.event_type, 1)),
        occurred_at=happened.occurred_at,
        accepted_at=delivery.received_at,
    )


def _note_event(happened: Happened, note: Data, delivery: Delivery) -> Event:
    if note.incident is None or not note.incident.id:
        raise InvalidInput("event.data.incident.id: a note needs it", field="event.data.incident.id")
    said = note.content or note.message or ""
    author = _shown(happened.agent)
    noun = _NOTES[note.type]
    return document_event(
        "comment",
        SourceDocument(
            title=text.title(f"Incident {noun}:", note.incident.summary or note.incident.id),
            body=text.body(said, {"By": author, "Date": happened.occurred_at.isoformat()}),
            part=f"{noun}-{note.id}",
            url=note.html_url or note.incident.html_url,
            author=author,
            references=references([said]),
        ),
        source=SOURCE,
        source_id=happened.id,
        subject=note.incident.id,
        version=version(happened.occurred_at),
        occurred_at=happened.occurred_at,
        accepted_at=delivery.received_at,
    )


def _shown(reference: Reference | None) -> str | None:
    return (reference.summary or reference.id) if reference else None
