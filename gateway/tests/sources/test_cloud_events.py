from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.bindings import http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from cairn_gateway.sources import cloud_events
from cairn_gateway.sources.model import Delivery
from cairn_shared.errors import InvalidInput

Make = Callable[..., Delivery]
TIME = datetime(2026, 3, 5, 8, 0, tzinfo=UTC)


def event(**changes: Any) -> CloudEvent:
    attributes = {
        "id": "e-1",
        "source": "https://ci.acme.example/deployments",
        "type": "com.acme.deployment.finished",
        "time": TIME,
        "subject": "checkout/production",
    }
    attributes |= changes
    data = {"title": "Checkout 2.4.1 is live", "message": "by PROJ-7", "service": "checkout", "labels": {"env": "prod"}}
    return CloudEvent({name: value for name, value in attributes.items() if value is not None}, data)


def of_message(delivery: Make, message: http.HTTPMessage) -> Delivery:
    return Delivery(
        {name.lower(): value for name, value in message.headers.items()}, message.body, delivery(b"").received_at
    )


def test_the_sdks_binary_and_structured_requests_give_the_same_events(delivery: Make) -> None:
    binary = cloud_events.translate(of_message(delivery, http.to_binary_event(event())))
    structured = cloud_events.translate(of_message(delivery, http.to_structured_event(event())))
    assert binary == structured
    named, part = binary.events
    assert (named.type, named.source) == ("deployment", "ce:https://ci.acme.example/deployments")
    assert named.subject == part.subject == "checkout/production"
    assert part.payload["part"] == "event-e-1"
    assert part.payload["title"] == "Checkout 2.4.1 is live"
    assert (part.payload["service"], part.payload["labels"]) == ("checkout", {"env": "prod"})
    assert part.payload["references"] == ["PROJ-7"]


def test_a_batch_gives_the_events_of_each(delivery: Make) -> None:
    batch = [json.loads(JSONFormat().write(event(id=f"e-{number}"))) for number in range(3)]
    made = delivery(json.dumps(batch), content_type="application/cloudevents-batch+json; charset=utf-8")
    parts = [one.payload["part"] for one in cloud_events.translate(made).events if one.payload["part"]]
    assert parts == ["event-e-0", "event-e-1", "event-e-2"]


def test_without_a_subject_the_event_is_the_document(delivery: Make) -> None:
    events = cloud_events.translate(of_message(delivery, http.to_binary_event(event(subject=None)))).events
    assert [(one.subject, one.payload["part"]) for one in events] == [("e-1", "")]


def test_a_redelivery_is_the_same_event_whenever_it_comes(delivery: Make) -> None:
    message = http.to_structured_event(event())
    later = Delivery({"content-type": "application/cloudevents+json"}, message.body, datetime(2027, 1, 1, tzinfo=UTC))
    first = cloud_events.translate(of_message(delivery, message)).events
    again = cloud_events.translate(later).events
    assert [(one.event_id, one.version) for one in first] == [(one.event_id, one.version) for one in again]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("com.acme.incident.opened", "alert"),
        ("dev.cdevents.pipelinerun.finished.0.1.1", "deployment"),
        ("com.github.pull_request.opened", "pull_request"),
        ("com.acme.issue.created", "ticket"),
        ("com.acme.something", "log"),
    ],
)
def test_the_kind_follows_from_the_words_of_the_type(delivery: Make, name: str, kind: str) -> None:
    assert cloud_events.translate(of_message(delivery, http.to_binary_event(event(type=name)))).events[0].type == kind


def test_a_stated_kind_wins_and_a_wrong_one_is_named(delivery: Make) -> None:
    stated = of_message(delivery, http.to_structured_event(event(cairnkind="commit")))
    assert cloud_events.translate(stated).events[0].type == "commit"
    with pytest.raises(InvalidInput) as caught:
        cloud_events.translate(of_message(delivery, http.to_structured_event(event(cairnkind="runbook.deleted"))))
    assert caught.value.field == "cairnkind"


@pytest.mark.parametrize("data", ["plain text", b"\xff\xfe bytes", None, [1, 2], {"deep": {"er": [1, {"x": None}]}}])
def test_any_data_gives_a_document(delivery: Make, data: Any) -> None:
    body: dict[str, Any] = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    if isinstance(data, bytes):
        body["data_base64"] = "//4gYnl0ZXM="
    elif data is not None:
        body["data"] = data
    made = delivery(json.dumps(body), content_type="application/cloudevents+json")
    assert cloud_events.translate(made).events[0].payload["title"]


@pytest.mark.parametrize(
    ("body", "kind", "field"),
    [
        ("{", "application/cloudevents+json", "body"),
        ("[]", "application/cloudevents+json", "event"),
        ("{}", "application/cloudevents-batch+json", "body"),
        ('[{"specversion":"1.0","id":"1","source":"/s"}]', "application/cloudevents-batch+json", "0.type"),
        ('{"specversion":"1.0","source":"/s","type":"t"}', "application/cloudevents+json", "id"),
        ('{"specversion":"0.3","id":"1","source":"/s","type":"t"}', "application/cloudevents+json", "specversion"),
        ('{"specversion":"1.0","id":"1","source":"/s","type":"t","time":"x"}', "application/cloudevents+json", "event"),
        ('{"specversion":"1.0","id":"1","source":"/s","type":"t","time":7}', "application/cloudevents+json", "event"),
        (
            '{"specversion":"1.0","id":"1","source":"/s","type":"t","Bad_Name":"x"}',
            "application/cloudevents+json",
            None,
        ),
        (
            '{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"abc"}',
            "application/cloudevents+json",
            "event",
        ),
        ("<x/>", "application/cloudevents+xml", "Content-Type"),
        ("{}", "application/json", "ce-specversion"),
    ],
)
def test_what_is_no_cloud_event_is_refused_by_the_attribute(
    delivery: Make, body: str, kind: str, field: str | None
) -> None:
    with pytest.raises(InvalidInput) as caught:
        cloud_events.translate(delivery(body, content_type=kind))
    assert field is None or caught.value.field == field


def test_a_source_cannot_call_itself_github(delivery: Make) -> None:
    made = cloud_events.translate(of_message(delivery, http.to_binary_event(event(source="github")))).events[0]
    assert made.source == "ce:github"
