from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from cairn_gateway.sources import gitlab
from cairn_gateway.sources.model import Delivery, RunbookRepositories, Translation
from cairn_shared.errors import InvalidInput

Make = Callable[..., Delivery]
Golden = Callable[[str], bytes]
Translate = Callable[[str], Translation]


@pytest.fixture
def translate(delivery: Make, golden: Golden, repositories: RunbookRepositories) -> Translate:
    return lambda name: gitlab.translate(
        delivery(golden(f"gitlab/{name}"), x_gitlab_event="Some Hook", idempotency_key="k1"), repositories
    )


def test_a_push_gives_its_commits_and_the_dirty_mark_and_says_what_is_missing(translate: Translate) -> None:
    translation = translate("push")
    assert [event.type for event in translation.events] == ["commit", "repo.pushed"]
    assert translation.events[0].subject == "acme/payments@da1560886d4f094c3e6c9ef40349f7d38b5d27d7"
    assert translation.events[0].payload["paths"] == ["CHANGELOG", "app/controller/application.rb"]
    assert translation.events[1].payload["repository"] == "gl"
    assert "1 of 24 commits" in translation.notes[0]
    assert translation.cut == "left"


def test_the_commits_that_gitlab_does_not_list_are_asked_for(delivery: Make, golden: Golden) -> None:
    apis = RunbookRepositories(apis=frozenset({"gitlab.com"}))
    translation = gitlab.translate(delivery(golden("gitlab/push")), apis)
    rest = translation.events[-1]
    assert (rest.type, translation.cut) == ("push.cut", "fetched")
    assert (rest.payload["base"], rest.payload["after"]) == (
        "95790bf891e76fee5e1747ab589903a6a1f80f22",
        "da1560886d4f094c3e6c9ef40349f7d38b5d27d7",
    )
    deleted = json.loads(golden("gitlab/push")) | {"after": "0" * 40, "commits": [], "total_commits_count": 0}
    assert gitlab.translate(delivery(json.dumps(deleted)), apis).events == []


def test_issues_and_merge_requests_have_their_own_signs(translate: Translate) -> None:
    assert translate("issue_open").events[0].subject == "acme/payments#23"
    merge = translate("merge_request_merge").events[0]
    assert (merge.type, merge.subject) == ("pull_request", "acme/payments!1")
    assert "pool into main" in merge.payload["body"]
    assert merge.payload["labels"] == {"label:API": "true"}


def test_what_became_confidential_is_taken_out_of_the_index(translate: Translate) -> None:
    before, after = translate("issue_open").events[0], translate("issue_confidential").events[0]
    assert after.payload["deleted"]
    assert after.version > before.version
    assert b"Leaked" not in after.encode()
    assert b"the key is in the log" not in after.encode()


@pytest.mark.parametrize("where", ["object_attributes", "issue"])
def test_a_note_that_few_may_read_is_not_taken(delivery: Make, golden: Golden, where: str) -> None:
    payload = json.loads(golden("gitlab/note_issue"))
    payload[where]["confidential"] = True
    assert gitlab.translate(delivery(json.dumps(payload)), RunbookRepositories()).ignored == "confidential"


def test_notes_are_parts_of_what_they_hang_on(translate: Translate) -> None:
    issue, commit = translate("note_issue").events[0], translate("note_commit").events[0]
    assert (issue.subject, issue.payload["part"]) == ("acme/payments#23", "comment-1241")
    assert commit.subject == translate("push").events[0].subject
    assert issue.payload["references"] == ["!4"]


def test_a_failed_pipeline_names_its_jobs(translate: Translate) -> None:
    event = translate("pipeline_failed").events[0]
    assert "production (deploy) script_failure" in event.payload["body"]
    assert event.payload["severity"] == "error"


def test_a_pipelines_later_state_wins_though_it_has_no_time_of_change(delivery: Make, golden: Golden) -> None:
    payload = json.loads(golden("gitlab/pipeline_failed"))
    failed = gitlab.translate(delivery(json.dumps(payload)), RunbookRepositories()).events[0]
    payload["object_attributes"] |= {"status": "success", "finished_at": "2026-03-03 15:40:00 UTC"}
    retried = gitlab.translate(delivery(json.dumps(payload)), RunbookRepositories()).events[0]
    payload["object_attributes"] |= {"status": "pending", "finished_at": None}
    payload["builds"] = []
    pending = gitlab.translate(delivery(json.dumps(payload)), RunbookRepositories()).events[0]
    assert pending.version < failed.version < retried.version


def test_gitlabs_own_ways_to_write_times_are_read(translate: Translate) -> None:
    assert translate("deployment_success").events[0].occurred_at.isoformat() == "2026-03-03T15:30:00+02:00"


def test_a_retry_has_the_same_ids(translate: Translate) -> None:
    assert translate("issue_open") == translate("issue_open")


def test_other_events_are_ignored_by_name(translate: Translate) -> None:
    assert translate("emoji") == Translation(ignored="event type emoji")
    assert translate("push_branch_deleted").events == []


def test_system_hooks_are_ignored_and_told_why(delivery: Make, golden: Golden) -> None:
    made = gitlab.translate(delivery(golden("gitlab/push"), x_gitlab_event="System Hook"), RunbookRepositories())
    assert not made.events
    assert "every project" in (made.ignored or "")


def test_a_missing_field_is_named(delivery: Make, golden: Golden) -> None:
    payload = json.loads(golden("gitlab/issue_open"))
    del payload["object_attributes"]["iid"]
    with pytest.raises(InvalidInput) as caught:
        gitlab.translate(delivery(json.dumps(payload)), RunbookRepositories())
    assert caught.value.field == "object_attributes.iid"
