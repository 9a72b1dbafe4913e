from __future__ import annotations

from datetime import UTC, datetime

import hypothesis.strategies as st
from hypothesis import given

from cairn_shared.errors import PermanentError
from cairn_shared.kafka.dead_letters import (
    HEADER_ALLOWANCE,
    MESSAGE_LIMIT,
    PREFIX,
    STACK_LIMIT,
    Failure,
    dead_letter_headers,
    dead_letter_id,
    details,
    failure_of,
    original_headers,
)
from cairn_shared.kafka.records import Headers, Partition, Record

THEN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def failure(message: str = "no", stack: str = "", at: datetime = THEN) -> Failure:
    return Failure("decode", "permanent", "builtins.ValueError", message, 1, at, at, stack=stack)


def written(record: Record, why: Failure) -> Headers:
    return dead_letter_headers(record, why, group="g", app_version="1.2", pipeline="0001", git_sha="abc")


def record(headers: Headers = (), key: bytes | None = b"k", value: bytes | None = b"v") -> Record:
    return Record("t", 3, 42, key, value, headers, timestamp_ms=7, timestamp_type="create")


any_headers = st.lists(
    st.tuples(st.text(st.characters(codec="ascii"), min_size=1, max_size=20), st.none() | st.binary(max_size=50))
)


@given(any_headers)
def test_the_records_own_headers_come_back_byte_for_byte_in_order_with_nulls_and_repetitions(
    headers: list[tuple[str, bytes | None]],
) -> None:
    assert original_headers(written(record(tuple(headers)), failure())) == tuple(headers)


@given(any_headers.map(tuple))
def test_failing_again_keeps_the_first_failure_and_does_not_grow(headers: Headers) -> None:
    once = written(record(headers), failure("first", at=THEN))
    again = written(Record("t", 3, 99, b"k", b"v", once), failure("second", at=NOW))
    told = details(again)
    assert told["original.offset"] == "42"
    assert told["first-failed-at"] == THEN.isoformat()
    assert told["last-failed-at"] == NOW.isoformat()
    assert told["exception.message"] == "second"
    assert told["attempts"] == "2"
    assert len(again) == len(once)


def test_null_and_empty_are_told_apart() -> None:
    told = details(written(record(key=None, value=b""), failure()))
    assert (told["original.key-null"], told["original.value-null"]) == ("true", "false")


def test_headers_fit_the_allowance_however_long_the_error_is() -> None:
    why = failure(message="é" * 100_000, stack="x" * 100_000 + "the end")
    headers = written(record(), why)
    told = details(headers)
    assert len(told["exception.message"].encode()) <= MESSAGE_LIMIT
    assert len(told["exception.stack"].encode()) <= STACK_LIMIT
    assert told["exception.stack"].endswith("the end")
    assert sum(len(name) + len(value or b"") for name, value in headers) < HEADER_ALLOWANCE


def test_the_error_is_named_with_its_root_cause() -> None:
    error = PermanentError("outer", stage="write")
    error.__cause__ = KeyError("deep")
    why = failure_of(error, stage="write", kind="permanent", attempts=1, first=THEN, last=THEN)
    assert why.exception_type == "cairn_shared.errors.PermanentError"
    assert why.cause == "builtins.KeyError"
    assert "deep" in why.stack


def test_text_that_is_not_unicode_is_escaped_not_raised() -> None:
    assert details(written(record(), failure(message="half \ud800 of a pair")))["exception.message"]


def test_the_same_failure_is_the_same_dead_letter() -> None:
    assert dead_letter_id("g", Partition("t", 3), 42) == dead_letter_id("g", Partition("t", 3), 42)
    assert dead_letter_id("g", Partition("t", 3), 42) != dead_letter_id("h", Partition("t", 3), 42)


def test_ours_begin_with_our_prefix() -> None:
    added = written(record(), failure())
    assert added
    assert all(name.startswith(PREFIX) for name, _ in added)
