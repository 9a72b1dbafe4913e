from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from cairn_gateway.sources import pagerduty
from cairn_gateway.sources.model import Delivery, Translation
from cairn_shared.errors import InvalidInput

Make = Callable[..., Delivery]
Golden = Callable[[str], bytes]
Translate = Callable[[str], Translation]


@pytest.fixture
def translate(delivery: Make, golden: Golden) -> Translate:
    return lambda name: pagerduty.translate(delivery(golden(f"pagerduty/{name}")))


def test_an_incident_is_one_document_in_its_latest_state(translate: Translate) -> None:
    life = [translate(f"incident_{one}").events[0] for one in ("triggered", "acknowledged", "resolved")]
    assert {(event.type, event.subject) for event in life} == {("alert", "PGR0VU2")}
    assert [event.version for event in life] == sorted({event.version for event in life})
    assert [event.payload["status"] for event in life] == ["triggered", "acknowledged", "resolved"]
    first = life[0].payload
    assert first["title"] == "Incident #2: Checkout latency above 2 s"
    assert (first["service"], first["severity"]) == ("Checkout API", "P1")
    assert "Ada L" in first["body"]


def test_a_note_is_a_part_of_its_incident(translate: Translate) -> None:
    note = translate("incident_annotated").events[0]
    assert (note.subject, note.payload["part"]) == ("PGR0VU2", "note-P6NZ2X1")
    assert "Scaled checkout to 12 pods" in note.payload["body"]
    assert note.payload["references"] == ["PROJ-123"]


def test_a_redelivery_is_the_same_event(translate: Translate) -> None:
    assert translate("incident_triggered") == translate("incident_triggered")


@pytest.mark.parametrize(
    ("name", "reason"), [("pagey_ping", "ping"), ("service_updated", "event type service.updated")]
)
def test_what_means_nothing_is_ignored_with_the_reason(translate: Translate, name: str, reason: str) -> None:
    assert translate(name) == Translation(ignored=reason)


def test_a_wrong_field_is_named(delivery: Make, golden: Golden) -> None:
    payload = json.loads(golden("pagerduty/incident_triggered"))
    del payload["event"]["data"]["id"]
    with pytest.raises(InvalidInput) as caught:
        pagerduty.translate(delivery(json.dumps(payload)))
    assert caught.value.field == "event.data.id"
    del payload["event"]["data"]
    with pytest.raises(InvalidInput, match="needs it"):
        pagerduty.translate(delivery(json.dumps(payload)))
