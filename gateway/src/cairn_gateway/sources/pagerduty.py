"""PagerDuty's webhooks, version 3 (developer.pagerduty.com, "Webhooks"): one document an incident, one part a note."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from cairn_gateway.sources.incoming import Incoming, Time, parse, parse_value
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

    id: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = None
    type: str = "incident"
    summary: str | None = None
    state: str | None = None
    user: Reference | None = None
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
    occurred_at: Time | None = None
    agent: Reference | None = None
    data: dict[str, Any] | None = None


class Payload(Incoming):
    event: Annotated[Happened, Field(description="Version 3 has exactly one event in a delivery.")]


def translate(delivery: Delivery) -> Translation:
    """The event of one delivery; its own id stays the same when PagerDuty tries again.

    Raises:
        Malformed, InvalidInput: the payload cannot be read or lacks a field.
    """
    payload = parse(Payload, delivery.body)
    happened = payload.event
    if happened.event_type == "pagey.ping":
        return Translation(ignored="ping")
    if not happened.event_type.startswith("incident."):
        return Translation(ignored=f"event type {happened.event_type[:60]}")
    data = _data(happened)
    if data.type == "incident":
        event = _incident_event(happened, data, delivery)
    elif data.incident and data.incident.id:
        event = _note_event(happened, data, data.incident.id, delivery)
    else:
        return Translation(ignored=f"data of type {data.type[:60]} that points to no incident")
    left_out = (*payload.left_out, *data.left_out)
    return Translation([event], left_out=left_out)


def _data(happened: Happened) -> Data:
    # Other resources have other data, so it is read only when it is known to be about an incident.
    if happened.data is None:
        raise InvalidInput("event.data: this event needs it", field="event.data")
    return parse_value(Data, happened.data, "event.data")


def _incident_event(happened: Happened, incident: Data, delivery: Delivery) -> Event:
    if incident.id is None:
        raise InvalidInput("event.data.id: an incident needs it", field="event.data.id")
    at = happened.occurred_at or delivery.received_at
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
        version=version(at, _RANKS.get(happened.event_type, 1)),
        occurred_at=at,
        accepted_at=delivery.received_at,
    )


def _note_event(happened: Happened, note: Data, incident_id: str, delivery: Delivery) -> Event:
    """What belongs to an incident: a note, a status update, or a responder, conference bridge, workflow and so on."""
    said = note.content or note.message or ""
    at = happened.occurred_at or delivery.received_at
    author = _shown(happened.agent)
    noun = _NOTES.get(note.type) or happened.event_type.removeprefix("incident.").replace(".", " ").replace("_", " ")
    about = note.incident.summary if note.incident else None
    # What has no id of its own is known by its event's.
    part = f"{noun}-{note.id}" if note.type in _NOTES and note.id else f"event-{happened.id}"
    return document_event(
        "comment",
        SourceDocument(
            title=text.title(f"Incident {noun}:", about or incident_id),
            body=text.body(
                said,
                {
                    "What": note.summary,
                    "State": note.state,
                    "Who": _shown(note.user),
                    "By": author,
                    "Date": happened.occurred_at.isoformat() if happened.occurred_at else None,
                },
            ),
            part=part,
            url=note.html_url or (note.incident.html_url if note.incident else None),
            author=author,
            references=references([said]),
        ),
        source=SOURCE,
        source_id=happened.id,
        subject=incident_id,
        version=version(at),
        occurred_at=at,
        accepted_at=delivery.received_at,
    )


def _shown(reference: Reference | None) -> str | None:
    return (reference.summary or reference.id) if reference else None
