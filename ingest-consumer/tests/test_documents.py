from __future__ import annotations

import json

import pytest
from ingest_fakes import deleted, runbook, source_event, upserted

from cairn_ingest_consumer.documents import render
from cairn_shared.errors import PermanentError
from cairn_shared.events import Event, RepoPushed, decode, make_event


def test_a_runbook_keeps_its_steps_as_its_author_numbered_them() -> None:
    book = runbook("r1", "first", "second", alerts=["HighLoad"], links=["https://X/Y"], commit="c", blob="b")
    write = render(upserted(book, 7))
    assert (write.kind, write.part, write.rank.version, write.external_id) == ("runbook", "", 7, "r1")
    assert [(step.number, step.label, step.body) for step in write.steps] == [(1, "1", "first"), (2, "2", "second")]
    assert write.facts.alerts == ("highload",)
    assert write.facts.links == ("https://x/y",)
    assert write.content_sha == book.content_sha()
    assert write.decays_from is None


def test_a_deleted_runbook_is_a_write_without_content() -> None:
    write = render(deleted("r1", 8))
    assert write.deleted
    assert write.steps == ()
    assert write.facts.title == ""


def test_the_main_part_of_a_source_document_is_one_step_without_a_section() -> None:
    write = render(
        source_event("OPS-1", 1, title="Disk full", body="on db-3", paths=["etc/fstab"], references=["PR-9"])
    )
    [step] = write.steps
    assert (step.section, step.body) == ("", "on db-3")
    assert {"Disk full", "etc/fstab", "PR-9"} <= set(step.mentions)
    assert write.decays_from == write.occurred_at


def test_another_part_shows_its_own_title_as_its_section() -> None:
    [step] = render(source_event("OPS-1", 2, part="comment-1", title="Comment by Ann", body="rebooted")).steps
    assert (step.section, step.body) == ("Comment by Ann", "rebooted")


@pytest.mark.parametrize("field", ["occurred_at", "accepted_at", "first_seen", "last_seen"])
def test_a_time_without_a_zone_is_refused_by_its_name(field: str) -> None:
    """Pitfall 16."""
    told = source_event("OPS-1", 1).model_dump(mode="json")
    (told if field in told else told["payload"])[field] = "2026-03-05T08:00:00"
    with pytest.raises(PermanentError, match=f"{field}: .*timezone"):
        render(decode(json.dumps(told).encode()))


def test_a_source_document_without_a_body_is_found_by_its_title() -> None:
    [step] = render(source_event("OPS-1", 1, title="Disk full", body="  ")).steps
    assert step.body == "Disk full"


def with_payload(event: Event, **changes: object) -> Event:
    return event.model_copy(update={"payload": {**event.payload, **changes}})


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (source_event("A", 1, body="nul \0 byte"), "body: holds a NUL"),
        (source_event("A\0", 1), "subject: holds a NUL"),
        (source_event("A", 1, part="p\0"), "part: holds a NUL"),
        (source_event("A", 1, labels={"a\0": "b"}), "labels: holds a NUL"),
        (source_event("A", 1, url="http://\0"), "metadata: holds a NUL"),
        (source_event("A", 1, references=["\0"]), "references: holds a NUL"),
        (source_event("A", 1, title="\0"), "title: holds a NUL"),
        (with_payload(source_event("A", 1), title=None), "payload: title"),
        (with_payload(upserted(runbook("r", "x"), 1), runbook={}), "payload: runbook"),
    ],
)
def test_what_postgres_cannot_store_and_what_does_not_fit_is_a_permanent_error(event: Event, reason: str) -> None:
    with pytest.raises(PermanentError, match=reason) as caught:
        render(event)
    assert caught.value.stage == "validate"


def test_half_of_a_surrogate_pair_is_a_permanent_error() -> None:
    event = source_event("A", 1)
    broken = event.model_copy(update={"subject": "half \ud83d of a pair"})
    with pytest.raises(PermanentError, match="surrogate"):
        render(broken)


def test_whole_surrogate_pairs_and_other_scripts_are_fine() -> None:
    assert render(source_event("A", 1, body="😀 日本語 Ünïcode")).steps[0].body == "😀 日本語 Ünïcode"


def test_an_event_that_is_no_document_is_refused() -> None:
    event = source_event("A", 1)
    pushed = make_event(
        "repo.pushed",
        source="github",
        source_id="x",
        subject="repo@main",
        version=1,
        occurred_at=event.occurred_at,
        accepted_at=event.accepted_at,
        payload=RepoPushed(repository="repo", branch="main"),
    )
    with pytest.raises(PermanentError, match=r"repo\.pushed is not a document"):
        render(pushed)
