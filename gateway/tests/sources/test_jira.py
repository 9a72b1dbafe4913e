from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cairn_gateway.sources import jira
from cairn_gateway.sources.jira.rich_text import plain
from cairn_gateway.sources.model import Delivery, Translation
from cairn_shared.errors import InvalidInput

Make = Callable[..., Delivery]
Golden = Callable[[str], bytes]
Translate = Callable[[str], Translation]


@pytest.fixture
def translate(delivery: Make, golden: Golden) -> Translate:
    return lambda name: jira.translate(delivery(golden(f"jira/{name}"), x_atlassian_webhook_identifier="w1"))


def test_a_ticket_is_one_document_from_creation_to_deletion(translate: Translate) -> None:
    life = [translate(f"issue_{one}").events[0] for one in ("created", "updated", "deleted")]
    assert {(event.type, event.subject, event.payload["part"]) for event in life} == {("ticket", "PROJ-123", "")}
    assert [event.version for event in life] == sorted({event.version for event in life})
    created = life[0].payload
    assert created["title"] == "PROJ-123 Checkout answers 503"
    assert (created["service"], created["severity"], created["status"]) == ("checkout-api", "High", "In Progress")
    assert created["url"] == "https://acme.atlassian.net/browse/PROJ-123"
    assert "kubectl get pods -n shop" in created["body"]
    assert life[2].payload["deleted"]
    assert life[2].payload["body"] == ""


def test_the_document_format_of_the_cloud_becomes_text(translate: Translate) -> None:
    body = translate("issue_updated").events[0].payload["body"]
    assert "## Cause" in body
    assert "see the graph (https://grafana.acme.example/d/2)@Ada" in body
    assert "```\nkubectl rollout restart deploy/checkout\n```" in body
    assert "1. first\n2. second" in body


def test_comments_are_parts_that_change_and_go(translate: Translate) -> None:
    life = [translate(f"comment_{one}").events[0] for one in ("created", "updated", "deleted")]
    assert {(event.subject, event.payload["part"]) for event in life} == {("PROJ-123", "comment-252789")}
    assert [event.version for event in life] == sorted({event.version for event in life})
    assert life[0].payload["references"] == ["PROJ-7"]
    assert life[2].payload["deleted"]


def test_an_internal_comment_and_a_ticket_with_a_security_level_stay_out(
    translate: Translate, delivery: Make, golden: Golden
) -> None:
    internal = translate("comment_internal").events[0]
    assert internal.payload["deleted"]
    assert b"root password" not in internal.encode()
    payload = json.loads(golden("jira/issue_created"))
    payload["issue"]["fields"]["security"] = {"name": "Staff"}
    hidden = jira.translate(delivery(json.dumps(payload))).events[0]
    assert hidden.payload["deleted"]
    assert b"503" not in hidden.encode()


def test_a_moved_ticket_leaves_a_tombstone_at_its_old_key(translate: Translate) -> None:
    new, old = translate("issue_moved").events
    assert (new.subject, new.payload["deleted"]) == ("OPS-9", False)
    assert (old.subject, old.payload["deleted"]) == ("PROJ-123", True)


def test_an_update_that_carries_its_comment_gives_both(delivery: Make, golden: Golden) -> None:
    payload = json.loads(golden("jira/issue_updated"))
    payload["comment"] = json.loads(golden("jira/comment_created"))["comment"]
    events = jira.translate(delivery(json.dumps(payload))).events
    assert [event.payload["part"] for event in events] == ["", "comment-252789"]


def test_other_events_are_ignored_by_name(translate: Translate) -> None:
    assert translate("sprint_started") == Translation(ignored="event type sprint_started")


def test_a_retry_has_the_same_ids(translate: Translate) -> None:
    assert translate("issue_updated") == translate("issue_updated")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda payload: payload.pop("issue"), "issue"),
        (lambda payload: payload["issue"].update(key="../x"), "issue.key"),
        (lambda payload: [payload.pop("webhookEvent"), payload.pop("issue")], "issue"),
    ],
)
def test_a_wrong_field_is_named(delivery: Make, golden: Golden, change: Callable[[Any], object], field: str) -> None:
    payload = json.loads(golden("jira/issue_created"))
    change(payload)
    with pytest.raises(InvalidInput) as caught:
        jira.translate(delivery(json.dumps(payload)))
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (None, ""),
        ({}, ""),
        ({"type": "doc", "content": "wrong"}, ""),
        ({"type": "doc", "content": [{"type": "newThing", "content": [{"type": "text", "text": "kept"}]}]}, "kept"),
        ({"type": "text", "text": "x", "marks": "wrong"}, "x"),
        ({"type": "doc", "content": [7, None, {"type": "emoji", "attrs": {"shortName": ":fire:"}}]}, ":fire:"),
        ("{noformat}raw{noformat}", "```\nraw\n```"),
    ],
)
def test_any_rich_text_gives_some_text(tree: Any, expected: str) -> None:
    assert plain(tree) == expected
