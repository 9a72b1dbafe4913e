"""Reading, changing and carrying letters, without any store."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import hypothesis.strategies as st
import pytest
from hypothesis import given

from cairn_gateway.dlq import changes
from cairn_gateway.dlq.carrying import CarriedLetter, parsed
from cairn_gateway.dlq.model import Letter
from cairn_gateway.dlq.reading import letter_of, replay_id
from cairn_gateway.dlq.replay import headers_of
from cairn_shared.errors import Conflict, InvalidInput
from cairn_shared.events import TOPIC_EVENTS, SourceDocument, make_event
from cairn_shared.kafka.dead_letters import Failure, dead_letter_headers
from cairn_shared.kafka.records import Headers, Record

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def event_value(subject: str = "T-1", title: str = "A ticket") -> bytes:
    event = make_event(
        "ticket",
        source="jira",
        source_id=subject,
        subject=subject,
        version=3,
        occurred_at=NOW,
        accepted_at=NOW,
        payload=SourceDocument(title=title, part="c1"),
    )
    return event.encode()


def dead(
    value: bytes | None,
    *,
    key: bytes | None = b"T-1",
    headers: Headers = (),
    offset: int = 7,
    at: datetime = NOW,
    message: str = "title: 'x' is 12 too long",
) -> Record:
    """What lies on the dead letter topic for a record at `offset`."""
    lay = Record(TOPIC_EVENTS, 2, offset, key, value, headers, timestamp_ms=1000, timestamp_type="create")
    failure = Failure("validate", "permanent", "cairn.PermanentError", message, 1, at, at, stack="a stack")
    told = dead_letter_headers(lay, failure, group="g", app_version="1.2", pipeline="0001", git_sha="abc")
    return Record(f"{TOPIC_EVENTS}.dlq", 4, 99, key, value, told, timestamp_ms=2000, timestamp_type="create")


def letter(value: bytes | None = None, **more: object) -> Letter:
    return changes.discovered(letter_of(dead(value or event_value(), **more), NOW))  # type: ignore[arg-type]


def again(sent: Letter, at: datetime, message: str = "still wrong") -> Record:
    """The dead letter that the consumer writes when the replay of `sent` fails."""
    record = Record(sent.topic, 0, 500, sent.key, sent.value, headers_of(sent))
    failure = Failure("chunk", "permanent", "builtins.ValueError", message, 1, at, at)
    told = dead_letter_headers(record, failure, group="g", app_version="1.3", pipeline="0001")
    return Record(f"{sent.topic}.dlq", 1, 3, sent.key, sent.value, told)


def test_a_letter_tells_where_its_record_lay_and_what_its_event_is() -> None:
    read = letter(headers=(("event-type", b"ticket"), ("twice", b"1"), ("twice", None), ("binary", b"\xff\x00")))
    assert (read.topic, read.partition, read.offset) == (TOPIC_EVENTS, 2, 7)
    assert (read.source, read.subject, read.part, read.version) == ("jira", "T-1", "c1", 3)
    assert read.headers == (("event-type", b"ticket"), ("twice", b"1"), ("twice", None), ("binary", b"\xff\x00"))
    assert (read.failure.stage, read.failure.app_version, read.failure.git_sha) == ("validate", "1.2", "abc")


@given(
    st.none() | st.binary(max_size=200),
    st.none() | st.binary(max_size=20),
    st.lists(st.tuples(st.text(st.characters(codec="ascii"), max_size=20), st.none() | st.binary(max_size=30))),
)
def test_whatever_lies_on_a_topic_becomes_a_letter_and_travels_whole(
    value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    """Also what no consumer wrote: a record without any of our headers."""
    for record in (
        Record(f"{TOPIC_EVENTS}.dlq", 0, 5, key, value, tuple(headers)),
        dead(value, key=key, headers=tuple(headers)),
    ):
        read = letter_of(record, NOW)
        assert (read.key, read.value) == (key, value)
        assert read.topic == TOPIC_EVENTS
        if read.topic == TOPIC_EVENTS and replay_id(record.headers) is None and read.replay_count == 0:
            carried = parsed(CarriedLetter.of(read).model_dump_json().encode(), NOW)
            assert replace(carried, history=()) == read


def test_the_same_record_is_one_letter_and_two_records_are_never_one() -> None:
    first = letter()
    assert letter_of(dead(event_value(), offset=400), NOW).id == first.id, "published again, it lies elsewhere"
    assert letter_of(dead(event_value(title="Another")), NOW).id != first.id
    garbage = letter_of(dead(b"no json"), NOW)
    assert letter_of(dead(b"no json"), NOW).id == garbage.id, "written twice around a crash"
    assert letter_of(dead(b"no json", offset=8), NOW).id != garbage.id
    assert letter_of(dead(b"other garbage"), NOW).id != garbage.id, "the offset of another log, after a restart"
    assert letter_of(dead(None), NOW).id != letter_of(dead(b""), NOW).id


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("title: 'a' is 12 too long", "title: 'bcd' is 7 too long", True),
        ("no document 8f14e45fceea167a", "no document 0cc175b9c0f1b6a8", True),
        ("title is too long", "body is too long", False),
    ],
)
def test_failures_with_one_cause_have_one_fingerprint(one: str, other: str, *, same: bool) -> None:
    prints = [letter_of(dead(b"x", message=message), NOW).fingerprint for message in (one, other)]
    assert (prints[0] == prints[1]) is same


def test_a_replay_that_fails_comes_back_to_its_letter_with_its_count() -> None:
    sent = changes.sent(letter(), by="ada", at=NOW, job="j", force=False)
    record = again(sent, NOW + timedelta(seconds=5))
    seen = letter_of(record, NOW)
    assert seen.id == sent.id
    assert (seen.partition, seen.offset) == (2, 7), "where it lay first"
    back = changes.observed(sent, seen, replay_id(record.headers))
    assert back is not None
    assert (back.state, back.replay_count, back.failure.stage) == ("open", 1, "chunk")
    assert back.failure.first_failed_at == sent.failure.first_failed_at
    assert [change.what for change in back.history] == ["dead-lettered", "replayed", "failed again"]
    assert changes.observed(back, seen, replay_id(record.headers)) is None, "read once more"


def test_reading_the_topic_again_changes_nothing() -> None:
    known = letter()
    seen = letter_of(dead(event_value()), NOW)
    assert changes.observed(known, seen, None) is None
    sent = changes.sent(known, by="ada", at=NOW, job=None, force=False)
    late = letter_of(dead(event_value(), at=NOW + timedelta(seconds=1)), NOW)
    assert changes.observed(sent, late, None) is None, "a failure that is older than the replay"
    for closed in (changes.resolved(sent, "searchable", NOW), changes.discarded(sent, by="a", at=NOW, reason="r")):
        assert changes.observed(closed, late, sent.replay.id if sent.replay else None) is None


def test_the_fourth_replay_needs_force_and_only_open_letters_are_replayed() -> None:
    tired = replace(letter(), replay_count=3)
    with pytest.raises(Conflict, match="3 times"):
        changes.sent(tired, by="ada", at=NOW, job=None, force=False)
    assert changes.sent(tired, by="ada", at=NOW, job=None, force=True).replay_count == 4
    with pytest.raises(Conflict, match="discarded"):
        changes.sent(changes.discarded(tired, by="a", at=NOW, reason="r"), by="a", at=NOW, job=None, force=True)
    with pytest.raises(Conflict, match="too large"):
        changes.sent(replace(letter(), value_kept=False), by="a", at=NOW, job=None, force=True)


def test_a_replay_carries_the_records_own_headers() -> None:
    own: Headers = (("event-type", b"ticket"), ("twice", b"1"), ("twice", b"2"), ("null", None))
    sent = changes.sent(letter(headers=own), by="ada", at=NOW, job="j", force=False)
    headers = headers_of(sent)
    assert headers[: len(own)] == own
    told = dict(headers[len(own) :])
    assert told["cairn.replay.count"] == b"1"
    assert told["cairn.replay.by"] == b"ada"
    assert told["cairn.replay.letter"] == str(sent.id).encode()


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (b"no json", "JSON"),
        (b"[]", "object"),
        (b'{"topic": "cairn.events.v1"}', "partition"),
        (CarriedLetter.of(letter_of(dead(b"x"), NOW)).model_dump_json().replace("eA==", "?").encode(), "value"),
        (
            CarriedLetter.of(replace(letter_of(dead(b"x"), NOW), topic="payments")).model_dump_json().encode(),
            "payments",
        ),
    ],
)
def test_a_line_that_is_no_letter_says_what_is_wrong(line: bytes, wrong: str) -> None:
    with pytest.raises(InvalidInput, match=wrong):
        parsed(line, NOW)


def test_a_letter_without_an_event_settles_by_nothing() -> None:
    read = letter_of(dead(b"no json"), NOW)
    assert read.settling_event is None
    mended = changes.edited(read, uuid.uuid4(), by="ada", at=NOW, reason="quoted")
    assert mended.settling_event == mended.edited_to
