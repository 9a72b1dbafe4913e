"""What an event is about must be there; all else is taken if it can be read, and left out if not, with a word."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cairn_gateway.sources import alertmanager, github, gitlab, jira, pagerduty
from cairn_gateway.sources.incoming import counted_as
from cairn_gateway.sources.model import Delivery, RunbookRepositories, Translation

Make = Callable[..., Delivery]
Golden = Callable[[str], bytes]
Change = Callable[[Any], object]

TRANSLATE: dict[str, Callable[[Delivery], Translation]] = {
    "github": lambda delivery: github.translate(delivery, RunbookRepositories()),
    "gitlab": lambda delivery: gitlab.translate(delivery, RunbookRepositories()),
    "jira": jira.translate,
    "alertmanager": alertmanager.translate,
    "pagerduty": pagerduty.translate,
}


def run(payload: Any) -> Any:
    return payload["workflow_run"]


def fields(payload: Any) -> Any:
    return payload["issue"]["fields"]


def data(payload: Any) -> Any:
    return payload["event"]["data"]


@pytest.fixture
def translated(delivery: Make, golden: Golden) -> Callable[[str, Change], Translation]:
    def make(name: str, change: Change) -> Translation:
        source, _, event = name.partition("/")
        payload = json.loads(golden(name))
        change(payload)
        kind = {"workflow_run_completed": "workflow_run", "issues_opened": "issues"}.get(event, event)
        return TRANSLATE[source](delivery(json.dumps(payload), x_github_event=kind, x_github_delivery="d1"))

    return make


@pytest.mark.parametrize(
    ("name", "change", "left_out"),
    [
        ("github/workflow_run_completed", lambda p: run(p)["head_commit"].update(id="abc"), []),
        ("github/workflow_run_completed", lambda p: run(p)["head_commit"].pop("id"), []),
        ("github/workflow_run_completed", lambda p: run(p).update(updated_at="2026-01-01T00:00:00"), ["workflow_run.updated_at"]),
        ("github/workflow_run_completed", lambda p: run(p).update(head_commit="abc"), ["workflow_run.head_commit"]),
        ("github/issues_opened", lambda p: p["issue"].pop("created_at"), []),
        ("github/issues_opened", lambda p: p["issue"].update(labels=["sev1", {"name": "bug"}]), ["issue.labels.*"]),
        ("github/push", lambda p: p["commits"][0].update(timestamp="2026-01-01T00:00:00"), ["commits.*.timestamp"]),
        ("github/push", lambda p: p["commits"][0].update(timestamp=None), []),
        ("github/push", lambda p: p["commits"][0].update(id="no hash"), ["commits.*.id", "commits.*.id"]),
        ("gitlab/issue_open", lambda p: p["object_attributes"].update(updated_at="soon"), ["object_attributes.updated_at"]),
        ("jira/issue_updated", lambda p: fields(p).update(status="Done", priority=[3]), ["issue.fields.priority"]),
        ("jira/issue_updated", lambda p: fields(p).update(description=[{"type": "text", "text": "in a list"}]), []),
        ("jira/issue_updated", lambda p: [p.pop("webhookEvent"), p.update(comment="")], ["comment"]),
        ("jira/issue_updated", lambda p: p["issue"].update(key="OPS2-BÜRO"), []),
        ("jira/issue_updated", lambda p: fields(p).update(updated="soon"), ["issue.fields.updated"]),
        ("alertmanager/firing", lambda p: p.update(version="1"), []),
        ("alertmanager/firing", lambda p: p["alerts"][0].pop("startsAt"), []),
        ("alertmanager/firing", lambda p: p["alerts"][0].update(status="maybe"), ["alerts.*.status", "alerts.*.status"]),
        ("alertmanager/firing", lambda p: p["alerts"][0]["labels"].update(made_up={"a": 1}), ["alerts.*.labels"]),
        ("pagerduty/incident_triggered", lambda p: data(p).update(created_at="now"), ["event.data.created_at"]),
    ],
)  # fmt: skip
def test_what_nobody_needs_refuses_nothing(
    translated: Callable[[str, Change], Translation], name: str, change: Change, left_out: list[str]
) -> None:
    made = translated(name, change)
    assert made.events, made.ignored
    assert [counted_as(one) for one in made.left_out] == left_out


def test_nothing_is_put_in_the_place_of_what_was_left_out(translated: Callable[[str, Change], Translation]) -> None:
    whole = translated("github/push", lambda _: None).events
    lame = translated("github/push", lambda p: p["commits"][0].update(timestamp="yesterday"))
    assert "yesterday" not in str(lame.left_out)
    assert "Date:" in whole[0].payload["body"]
    assert "Date:" not in lame.events[0].payload["body"]
    assert lame.events[0].event_id == whole[0].event_id
    assert lame.events[0].version < whole[0].version  # whoever knows the time brings the better one
    assert lame.events[1:] == whole[1:]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("jira/issue_updated", lambda p: fields(p).update(security="Finance only")),
        ("jira/issue_updated", lambda p: fields(p).update(security=[7])),
        ("jira/comment_created", lambda p: p["comment"].update(visibility="role: Administrators")),
        ("jira/comment_created", lambda p: p["comment"].update(jsdPublic="no")),
        ("gitlab/issue_open", lambda p: p["object_attributes"].update(confidential="perhaps")),
        ("gitlab/issue_open", lambda p: p["object_attributes"].update(confidential=[1])),
    ],
)
def test_what_may_hide_something_hides_it_when_it_cannot_be_read(
    translated: Callable[[str, Change], Translation], name: str, change: Change
) -> None:
    made = translated(name, change)
    assert all(event.payload["deleted"] and not event.payload["body"] for event in made.events)
    assert translated(name, lambda _: None).events[0].payload["deleted"] is False


class TestJiraServer:
    """A comment comes without its issue; its address names that, by the number that the issue's own events have."""

    ADDRESS = "https://jira.example/rest/api/2/issue/10148/comment/10200"

    def comment(self, event: str, address: str = ADDRESS) -> str:
        return json.dumps({"webhookEvent": event, "comment": {"self": address, "id": "10200", "body": "restart it"}})

    def test_a_deleted_comment_is_taken_out_of_its_ticket(self, delivery: Make) -> None:
        issue = {"id": "10148", "self": "https://jira.example/rest/api/2/issue/10148", "key": "OPS-7", "fields": {}}
        seen = jira.translate(delivery(json.dumps({"webhookEvent": "jira:issue_created", "issue": issue})))
        lone = delivery(self.comment("comment_deleted"))
        before = jira.translate(lone)
        assert not before.events
        assert list(before.asks) == list(seen.names)
        [gone] = jira.translate(lone, seen.names).events
        assert (gone.subject, gone.payload["part"], gone.payload["deleted"]) == ("OPS-7", "comment-10200", True)
        [made] = jira.translate(delivery(self.comment("comment_created")), seen.names).events
        assert made.document_id() == gone.document_id()
        assert made.version <= gone.version

    def test_an_address_with_the_key_needs_no_memory(self, delivery: Make) -> None:
        address = self.ADDRESS.replace("10148", "OPS-7")
        [event] = jira.translate(delivery(self.comment("comment_created", address))).events
        assert event.subject == "OPS-7"

    def test_an_update_that_tells_of_a_deleted_comment_deletes_it(self, delivery: Make, golden: Golden) -> None:
        payload = json.loads(golden("jira/issue_updated"))
        payload |= {"issue_event_type_name": "issue_comment_deleted", "comment": {"id": "9", "body": "wrong"}}
        comment = jira.translate(delivery(json.dumps(payload))).events[-1]
        assert (comment.payload["part"], comment.payload["deleted"]) == ("comment-9", True)


@pytest.mark.parametrize("kind", ["work_item", "note"])
def test_items_of_gitlab_groups_are_ignored(delivery: Make, kind: str) -> None:
    body = json.dumps({"object_kind": kind, "project": None, "object_attributes": {"iid": 1}})
    assert "no project" in (TRANSLATE["gitlab"](delivery(body)).ignored or "")


@pytest.mark.parametrize("name", ["user_add_to_group", "subgroup_create", "project_create", "access_request_create"])
def test_gitlab_events_that_have_a_name_and_no_kind_are_ignored(delivery: Make, name: str) -> None:
    assert (
        TRANSLATE["gitlab"](delivery(json.dumps({"event_name": name, "group_id": 1}))).ignored == f"event type {name}"
    )


def test_who_was_called_to_an_incident_is_a_part_of_it(delivery: Make) -> None:
    happened = {
        "id": "01E",
        "event_type": "incident.responder.added",
        "occurred_at": "2026-03-06T12:00:00Z",
        "data": {
            "incident": {"id": "PGR0VU2", "summary": "The database is down"},
            "user": {"id": "P1", "summary": "Ada"},
            "state": "pending",
            "type": "incident_responder",
        },
    }
    [event] = pagerduty.translate(delivery(json.dumps({"event": happened}))).events
    assert (event.subject, event.payload["title"]) == ("PGR0VU2", "Incident responder added: The database is down")
    assert "Who: Ada" in event.payload["body"]
