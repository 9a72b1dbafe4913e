from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, KafkaError

from cairn_shared.kafka.confluent import _fetched, consumer_config
from cairn_shared.kafka.policy import ConsumerPolicy
from cairn_shared.kafka.records import EndOfLog, FetchProblem, OffsetOutOfRange, Partition, Record
from cairn_shared.settings import KafkaSettings

SETTINGS = KafkaSettings(kafka_bootstrap_servers="broker:9092")


class FakeMessage:
    """A message of the client, with what tests need of it."""

    def __init__(self, error: int | None = None, headers: Any = None, timestamp: tuple[int, int] | None = None) -> None:
        self._error = None if error is None else KafkaError(error)
        self._headers = headers
        self._timestamp = timestamp or (TIMESTAMP_NOT_AVAILABLE, 0)

    def error(self) -> KafkaError | None:
        return self._error

    def headers(self) -> Any:
        if isinstance(self._headers, Exception):
            raise self._headers
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        return self._timestamp

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return 7

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes:
        return b""


def fetched(**message: Any) -> Any:
    return _fetched(FakeMessage(**message))  # type: ignore[arg-type]


def test_a_message_becomes_a_record_with_nulls_and_empties_told_apart() -> None:
    record = fetched(headers=[("a", None), ("a", b"")], timestamp=(TIMESTAMP_LOG_APPEND_TIME, 12))
    assert record == Record("t", 3, 7, None, b"", (("a", None), ("a", b"")), 12, "append")
    assert fetched(timestamp=(TIMESTAMP_CREATE_TIME, 5)).timestamp_type == "create"
    assert fetched().timestamp_ms is None


def test_header_names_that_are_no_text_do_not_stop_the_partition() -> None:
    broken = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    assert fetched(headers=broken).headers == ()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KafkaError._PARTITION_EOF, EndOfLog(Partition("t", 3), 7)),
        (KafkaError._AUTO_OFFSET_RESET, OffsetOutOfRange(Partition("t", 3))),
        (KafkaError.OFFSET_OUT_OF_RANGE, OffsetOutOfRange(Partition("t", 3))),
    ],
)
def test_what_the_driver_must_decide_about_is_told_apart(error: int, expected: object) -> None:
    assert fetched(error=error) == expected


def test_other_errors_are_problems_that_pass_by_themselves() -> None:
    problem = fetched(error=KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert isinstance(problem, FetchProblem)
    assert not problem.fatal


def test_the_client_never_commits_stores_or_jumps_by_itself() -> None:
    for policy in (ConsumerPolicy(), ConsumerPolicy(protocol="consumer")):
        config = consumer_config(SETTINGS, "g", "c", policy)
        assert config["enable.auto.commit"] is False
        assert config["enable.auto.offset.store"] is False
        assert config["auto.offset.reset"] == "error"


def test_the_new_protocol_leaves_sessions_to_the_broker() -> None:
    assert "session.timeout.ms" not in consumer_config(SETTINGS, "g", "c", ConsumerPolicy(protocol="consumer"))
    classic = consumer_config(SETTINGS, "g", "c", ConsumerPolicy())
    assert classic["partition.assignment.strategy"] == "cooperative-sticky"
    assert classic["heartbeat.interval.ms"] < classic["session.timeout.ms"] / 3
