from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from cairn_gateway.sources import github
from cairn_gateway.sources.errors import Malformed
from cairn_gateway.sources.model import Delivery, RunbookRepositories, Translation
from cairn_shared.errors import InvalidInput
from cairn_shared.events import PushCut, RepoPushed, SourceDocument

Make = Callable[..., Delivery]
Golden = Callable[[str], bytes]
Translate = Callable[..., Translation]
DELIVERY = "72d3162e-cc78-11e3-81ab-4c9367dc0958"


@pytest.fixture
def translate(delivery: Make, golden: Golden, repositories: RunbookRepositories) -> Translate:
    def run(event: str, name: str, delivery_id: str = DELIVERY) -> Translation:
        made = delivery(golden(f"github/{name}"), x_github_event=event, x_github_delivery=delivery_id)
        return github.translate(made, repositories)

    return run


def document(translation: Translation, index: int = 0) -> SourceDocument:
    body = translation.events[index].body()
    assert isinstance(body, SourceDocument)
    return body


class TestPush:
    def test_each_commit_keeps_message_author_date_paths_and_references(self, translate: Translate) -> None:
        translation = translate("push", "push")
        event, commit = translation.events[0], document(translation)
        assert (event.type, event.source) == ("commit", "github")
        assert event.subject == "acme/payments@0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c"
        assert event.occurred_at.isoformat() == "2026-03-02T09:13:59+00:00"
        assert commit.title == "Raise the pool size of the ledger 🚑"
        assert commit.author == "Mira Øster"
        assert commit.paths == ["docs/pool.md", "deploy/values.yaml"]
        assert commit.references == ["#33173", "PROJ-123", "https://grafana.acme.example/d/pool"]
        assert commit.url == "https://github.com/Acme/payments/commit/0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c"
        for searched in (
            "The pool ran dry on Friday",
            "Mira Øster",
            "2026-03-02",
            "deploy/values.yaml",
            "0d1a26e67d8f",
        ):
            assert searched in commit.body

    def test_a_declared_runbook_repository_gets_a_dirty_mark_under_each_name(self, translate: Translate) -> None:
        marks = [event for event in translate("push", "push").events if event.type == "repo.pushed"]
        assert [mark.subject for mark in marks] == ["payments@main", "payments-docs@main"]
        body = marks[0].body()
        assert isinstance(body, RepoPushed)
        assert (body.repository, body.branch, body.forced) == ("payments", "main", False)
        assert body.after == "9f4c2d7e1b3a5968c7d0e1f2a3b4c5d6e7f80912"

    def test_a_repository_that_is_not_declared_gets_no_mark(self, delivery: Make, golden: Golden) -> None:
        made = delivery(golden("github/push"), x_github_event="push")
        assert {event.type for event in github.translate(made, RunbookRepositories()).events} == {"commit"}

    def test_a_force_push_is_marked_even_when_it_brings_no_commit(self, translate: Translate) -> None:
        translation = translate("push", "push_forced")
        assert [event.type for event in translation.events] == ["repo.pushed", "repo.pushed"]
        body = translation.events[0].body()
        assert isinstance(body, RepoPushed)
        assert body.forced

    @pytest.mark.parametrize("name", ["push_branch_deleted", "push_tag"])
    def test_a_deleted_branch_or_a_tag_without_commits_is_ignored_with_the_reason(
        self, translate: Translate, name: str
    ) -> None:
        translation = translate("push", name)
        assert translation.events == []
        assert "brings no commits" in (translation.ignored or "")

    def test_a_forge_with_githubs_format_is_told_apart_by_its_host(self, translate: Translate) -> None:
        translation = translate("push", "gitea_push")
        assert translation.events[0].subject.startswith("127.0.0.1:3000/ops/runbooks@4f7a9d0c")
        assert document(translation).paths == ["pool-exhausted.md", "pool.md"]
        assert translation.events[1].subject == "ops@main"

    def test_the_same_commit_is_the_same_event_in_any_delivery_and_on_any_branch(
        self, translate: Translate, delivery: Make, golden: Golden
    ) -> None:
        payload = json.loads(golden("github/push")) | {"ref": "refs/heads/release"}
        other = delivery(json.dumps(payload), x_github_event="push", x_github_delivery="another")
        again = github.translate(other, RunbookRepositories())
        first = translate("push", "push")
        assert [event.encode() for event in again.events] == [event.encode() for event in first.events[:2]]

    def test_the_rest_of_a_push_that_was_cut_is_asked_for(self, delivery: Make, golden: Golden) -> None:
        payload = json.loads(golden("github/push"))
        payload["commits"] = [payload["commits"][0] | {"id": f"{number:040x}"} for number in range(2048)]
        apis = RunbookRepositories(apis=frozenset({"github.com"}))
        made = [delivery(json.dumps(payload), x_github_event="push", x_github_delivery=one) for one in "ab"]
        first, again = (github.translate(one, apis) for one in made)
        assert (len(first.events), first.cut) == (2049, "fetched")
        assert first.events[-1].encode() == again.events[-1].encode(), "one push is one piece of work"
        rest = first.events[-1].body()
        assert isinstance(rest, PushCut)
        assert (rest.host, rest.name, rest.prefix) == ("github.com", "Acme/payments", "acme/payments")
        assert (rest.base, rest.after) == (payload["before"], payload["after"])
        assert "the others are fetched from github.com" in first.notes[0]

    def test_without_a_host_to_ask_the_note_says_what_to_do(self, delivery: Make, golden: Golden) -> None:
        payload = json.loads(golden("github/gitea_push")) | {"total_commits": 40}
        translation = github.translate(delivery(json.dumps(payload), x_github_event="push"), RunbookRepositories())
        assert (translation.cut, [event.type for event in translation.events]) == ("left", ["commit"])
        assert translation.notes[0].startswith("the sender lists 1 of 40 commits")
        assert "127.0.0.1:3000 in GITHUB_API_URL, GITLAB_API_URL or GITEA_API_URL" in translation.notes[0]

    @pytest.mark.parametrize(
        ("ref", "base"), [("refs/heads/feature", "main"), ("refs/heads/main", None), ("refs/tags/v1", "main")]
    )
    def test_a_new_branch_brings_what_the_default_branch_has_not(
        self, delivery: Make, golden: Golden, ref: str, base: str | None
    ) -> None:
        payload = json.loads(golden("github/gitea_push")) | {"total_commits": 40, "before": "0" * 40, "ref": ref}
        apis = RunbookRepositories(apis=frozenset({"127.0.0.1:3000"}))
        rest = github.translate(delivery(json.dumps(payload), x_github_event="push"), apis).events[-1].body()
        assert isinstance(rest, PushCut)
        assert rest.base == base

    def test_a_form_encoded_hook_gives_the_same_events(
        self, translate: Translate, delivery: Make, golden: Golden, repositories: RunbookRepositories
    ) -> None:
        made = delivery(
            urlencode({"payload": golden("github/push").decode()}),
            x_github_event="push",
            x_github_delivery=DELIVERY,
            content_type="application/x-www-form-urlencoded",
        )
        assert github.translate(made, repositories) == translate("push", "push")


class TestDiscussions:
    def test_an_issue_is_one_document_whose_later_states_have_higher_versions(self, translate: Translate) -> None:
        life = [translate("issues", f"issues_{action}").events[0] for action in ("opened", "closed", "deleted")]
        assert {event.subject for event in life} == {"acme/payments#42"}
        assert [event.version for event in life] == sorted({event.version for event in life})
        assert [event.payload["deleted"] for event in life] == [False, False, True]
        assert "ORA-00018" in life[0].payload["body"]
        assert "\r" not in life[0].payload["body"]

    def test_a_comment_is_a_part_and_brings_the_issue_as_it_is(self, translate: Translate) -> None:
        events = [translate("issue_comment", f"issue_comment_{one}").events for one in ("created", "edited", "deleted")]
        comments = [pair[0] for pair in events]
        assert {(event.subject, event.payload["part"]) for event in comments} == {("acme/payments#42", "comment-992")}
        assert [event.version for event in comments] == sorted({event.version for event in comments})
        assert comments[2].payload["deleted"]
        assert [pair[1].type for pair in events] == ["issue"] * 3

    def test_a_pull_request_tells_that_it_was_merged_and_where(self, translate: Translate) -> None:
        pull = document(translate("pull_request", "pull_request_closed"))
        assert pull.status == "merged"
        assert "pool into main" in pull.body
        assert pull.references == ["#42"]

    def test_a_review_is_a_part_of_its_pull_request(self, translate: Translate) -> None:
        translation = translate("pull_request_review", "pull_request_review_submitted")
        assert translation.events[0].subject == "acme/payments#88"
        assert "Verdict: approved" in document(translation).body


class TestOperations:
    def test_a_deployment_and_its_failure_are_one_document(self, translate: Translate) -> None:
        asked = translate("deployment", "deployment_created").events[0]
        failed = translate("deployment_status", "deployment_status_created").events[0]
        assert asked.subject == failed.subject == "acme/payments/deployment/145988746"
        assert failed.version > asked.version
        assert (failed.payload["status"], failed.payload["severity"]) == ("failure", "error")
        assert "readiness probe failed" in failed.payload["body"]

    def test_states_of_one_second_are_ordered_by_what_they_mean(self, delivery: Make, golden: Golden) -> None:
        payload = json.loads(golden("github/deployment_status_created"))
        versions = []
        for state in ("queued", "pending", "in_progress", "success", "inactive"):
            payload["deployment_status"]["state"] = state
            made = delivery(json.dumps(payload), x_github_event="deployment_status")
            versions.append(github.translate(made, RunbookRepositories()).events[0].version)
        assert versions == sorted(set(versions))

    def test_a_release_and_a_workflow_run_are_found_by_what_happened(self, translate: Translate) -> None:
        assert document(translate("release", "release_published")).title == "Release v2.4.1 Ledger 2.4.1"
        run = document(translate("workflow_run", "workflow_run_completed"))
        assert run.title == "Workflow Deploy failure on main"
        assert "attempt 2" in run.body


@pytest.mark.parametrize(
    ("event", "name", "reason"), [("ping", "ping", "ping"), ("star", "star_created", "event type star")]
)
def test_what_means_nothing_is_ignored_with_the_reason(
    translate: Translate, event: str, name: str, reason: str
) -> None:
    assert translate(event, name) == Translation(ignored=reason)


def test_a_redelivery_is_the_same_event_and_another_delivery_is_not(translate: Translate) -> None:
    first, again = translate("issues", "issues_opened"), translate("issues", "issues_opened")
    other = translate("issues", "issues_opened", "other")
    assert first.events[0].event_id == again.events[0].event_id != other.events[0].event_id


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda payload: payload.pop("repository"), "repository"),
        (lambda payload: payload.update(ref=7), "ref"),
        (lambda payload: payload.update(commits={"a": 1}), "commits"),
    ],
)
def test_a_wrong_field_is_named(delivery: Make, golden: Golden, change: Callable[[Any], object], field: str) -> None:
    payload = json.loads(golden("github/push"))
    change(payload)
    with pytest.raises(InvalidInput) as caught:
        github.translate(delivery(json.dumps(payload), x_github_event="push"), RunbookRepositories())
    assert caught.value.field == field


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[1]x", b"null garbage", b"[" * 100_000])
def test_a_body_that_is_not_json_is_malformed(delivery: Make, body: bytes) -> None:
    with pytest.raises(Malformed) as caught:
        github.translate(delivery(body, x_github_event="push"), RunbookRepositories())
    assert caught.value.status == 400


@pytest.mark.parametrize("form", [b"", b"x=1", b"payload", b"payload=%ff", "payload=é".encode()])
def test_a_form_without_its_field_names_it(delivery: Make, form: bytes) -> None:
    made = delivery(form, x_github_event="push", content_type="application/x-www-form-urlencoded")
    with pytest.raises(Malformed) as caught:
        github.translate(made, RunbookRepositories())
    assert caught.value.field in {"payload", "body"}


def test_secrets_do_not_get_into_events_but_hashes_do(delivery: Make, golden: Golden) -> None:
    payload = json.loads(golden("github/push"))
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    payload["commits"][0]["message"] = (
        f"Use {token}\n\nhttps://user:hunter22secret@git.acme.example/x and 6113728f27ae82c7"
    )
    made = delivery(json.dumps(payload), x_github_event="push")
    event = github.translate(made, RunbookRepositories()).events[0]
    assert token not in event.encode().decode()
    assert "hunter22secret" not in event.encode().decode()
    assert "6113728f27ae82c7" in event.payload["body"]


def test_invisible_characters_and_halves_of_pairs_are_taken_out(delivery: Make, golden: Golden) -> None:
    text = golden("github/push").decode().replace("The pool ran dry", r"The\u0000 po\u202eol \ud83d ran\u200b dry")
    event = github.translate(delivery(text, x_github_event="push"), RunbookRepositories()).events[0]
    assert "The pool" in event.payload["body"]
    event.encode().decode()


def test_what_a_template_tells_the_author_is_not_indexed(
    delivery: Make, golden: Golden, repositories: RunbookRepositories
) -> None:
    payload = json.loads(golden("github/issues_opened"))
    payload["issue"]["body"] = (
        "<!-- Thanks for reporting!\nSearch first. -->\nThe pool is empty.\n\n```html\n<!-- kept: code -->\n```\nSee `<!--` too."
    )
    made = delivery(json.dumps(payload).encode(), x_github_event="issues")
    body = document(github.translate(made, repositories)).body
    assert "Thanks" not in body
    assert "The pool is empty." in body
    assert "<!-- kept: code -->" in body
    assert "See `<!--` too." in body


@pytest.mark.parametrize(
    ("event", "kind", "verdict"),
    [
        ("pull_request_approved", "pull_request_review_approved", "Verdict: approved"),
        ("pull_request_rejected", "pull_request_review_rejected", "Verdict: requested changes"),
        ("pull_request_comment", "pull_request_review_comment", None),
    ],
)
def test_gitea_s_reviews_are_read(
    delivery: Make,
    golden: Golden,
    repositories: RunbookRepositories,
    *,
    event: str,
    kind: str,
    verdict: str | None,
) -> None:
    payload = json.loads(golden("github/pull_request_review_submitted"))
    del payload["review"]
    payload |= {
        "action": "reviewed",
        "review": {"type": kind, "content": "Mind the replica."},
        "sender": {"login": "ada"},
    }

    def read(changed: dict[str, Any]) -> Translation:
        return github.translate(delivery(json.dumps(payload | changed).encode(), x_github_event=event), repositories)

    (one,) = read({}).events
    review = document(read({}))
    assert (one.type, review.author) == ("comment", "ada")
    assert "Mind the replica." in review.body
    assert (verdict in review.body) if verdict else ("Verdict" not in review.body)
    assert read({}).events[0].event_id == one.event_id
    other = read({"review": {"type": kind, "content": "And the backup."}}).events[0]
    assert other.subject == one.subject
    assert other.event_id != one.event_id
