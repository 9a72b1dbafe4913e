from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from cairn_gateway.sources.errors import Malformed
from cairn_gateway.sources.logs.lines import read_lines
from cairn_gateway.sources.logs.records import time_of
from cairn_gateway.sources.logs.templates import MAX_COMPARED, MAX_ROUGH, fold, mask
from cairn_gateway.sources.logs.translate import translate_records
from cairn_gateway.sources.model import Delivery
from cairn_shared.events import Event

Make = Callable[..., Delivery]
LINE = "2026-03-05T08:00:00.123Z ERROR checkout: connection to 10.0.0.7:5432 failed after 30 ms"


def events_of(delivery: Delivery) -> list[Event]:
    return translate_records(read_lines(delivery.body, "checkout"), delivery).events


def total(events: list[Event]) -> int:
    """The count of a document as the index sums it: each part once, by its latest write."""
    parts = {(event.subject, event.payload["part"]): event.payload["count"] for event in events}
    return sum(parts.values())


class TestFolding:
    def test_ten_thousand_identical_lines_are_one_document_with_the_right_count(self, delivery: Make) -> None:
        events = events_of(delivery("\n".join([LINE] * 10_000)))
        assert len({event.document_id() for event in events}) == 1
        assert total(events) == 10_000
        named, counted = events
        assert LINE in named.payload["body"]
        assert (counted.payload["title"], counted.payload["body"]) == ("", "")

    def test_lines_that_differ_in_times_numbers_and_addresses_are_one_document(self, delivery: Make) -> None:
        lines = [
            f"2026-03-05T08:{n // 60:02d}:{n % 60:02d}.5Z ERROR connection to 10.0.{n % 9}.7:{5000 + n} failed after {n} ms"
            for n in range(600)
        ]
        events = events_of(delivery("\n".join(lines)))
        assert len({event.subject for event in events}) == 1
        assert total(events) == 600
        counted = events[1].payload
        assert (counted["first_seen"], counted["last_seen"]) == (
            "2026-03-05T08:00:00.500000Z",
            "2026-03-05T08:09:59.500000Z",
        )

    def test_lines_that_mean_different_things_stay_apart(self, delivery: Make) -> None:
        lines = [
            "connection refused by peer db-1",
            "disk sda is full",
            "ORA-00600 internal error",
            "ORA-00018 too many sessions",
        ]
        assert len({event.subject for event in events_of(delivery("\n".join(lines)))}) == 4

    def test_the_same_template_has_the_same_id_in_every_batch_and_process(self, delivery: Make) -> None:
        one = events_of(delivery(LINE))
        other = events_of(delivery(f"something else first\n{LINE.replace('30 ms', '31 ms')}\nand after"))
        assert one[0].subject in {event.subject for event in other}

    def test_counts_of_several_batches_add_up_and_a_replay_adds_nothing(self, delivery: Make) -> None:
        batches = [
            delivery("\n".join(f"2026-03-05T08:{minute:02d}:{second:02d}Z job failed" for second in range(60)))
            for minute in range(5)
        ]
        once = [event for batch in batches for event in events_of(batch)]
        assert total(once) == 300
        assert total([*once, *(event for batch in batches for event in events_of(batch))]) == 300

    def test_the_same_lines_without_times_count_again_when_they_come_again(self, delivery: Make) -> None:
        first = delivery("job failed\n" * 10)
        second = delivery("job failed\n" * 10, received_at=datetime(2026, 3, 6, 12, 1, tzinfo=UTC))
        assert total([*events_of(first), *events_of(second)]) == 20

    def test_a_key_of_the_sender_makes_a_retry_of_lines_without_times_the_same(self, delivery: Make) -> None:
        first = delivery("job failed\n" * 10, idempotency_key="batch-1")
        retry = delivery("job failed\n" * 10, idempotency_key="batch-1", received_at=datetime(2026, 3, 7, tzinfo=UTC))
        assert total([*events_of(first), *events_of(retry)]) == 10

    def test_counts_always_add_up_to_the_lines(self) -> None:
        words = ["alpha", "beta", "gamma", "delta"]
        lines = [f"{words[n % 4]} {words[n % 3]} took {n} ms on node-{n % 7} {words[n * n % 4]}" for n in range(500)]
        templates = fold(read_lines("\n".join(lines).encode()))
        assert sum(template.count for template in templates) == 500
        assert len(templates) < 60

    def test_a_flood_of_different_lines_costs_little_and_loses_no_count(self) -> None:
        seed = random.Random(1)
        words = ["".join(seed.choices("abcdefghij", k=6)) for _ in range(2000)]
        lines = [" ".join(seed.choices(words, k=12)) for _ in range(10_000)]
        started = time.process_time()
        templates = fold(read_lines("\n".join(lines).encode()))
        assert time.process_time() - started < 10
        assert sum(template.count for template in templates) == 10_000
        assert len(templates) <= MAX_COMPARED + MAX_ROUGH + 1

    def test_the_gravest_severity_and_the_hosts_are_kept(self, delivery: Make) -> None:
        lines = [
            json.dumps({"msg": "slow", "level": level, "host": f"h{n}", "service": "api", "time": 1772697600 + n})
            for n, level in enumerate(["info", "error", "warn"])
        ]
        named = events_of(delivery("\n".join(lines)))[0]
        assert named.payload["severity"] == "error"
        assert "h0, h1, h2" in named.payload["body"]
        assert named.subject.startswith("api/")

    def test_secrets_in_lines_do_not_get_through(self, delivery: Make) -> None:
        events = events_of(delivery("login failed password=hunter2-Secret-9 for AKIAIOSFODNN7EXAMPLE"))
        encoded = b"".join(event.encode() for event in events)
        assert b"hunter2-Secret-9" not in encoded
        assert b"AKIAIOSFODNN7EXAMPLE" not in encoded


class TestReading:
    def test_json_lines_of_common_loggers_are_understood(self) -> None:
        bodies = [
            {"@timestamp": "2026-03-05T08:00:00Z", "message": "m", "log.level": "WARN", "service.name": "a"},
            {"ts": 1772697600.0, "msg": "m", "level": "warn", "app": "a"},
            {"time": "2026-03-05T08:00:00Z", "log": "m", "severity": "WARNING", "kubernetes": {"labels": {"app": "a"}}},
            {"asctime": "2026-03-05 08:00:00,000", "message": "m", "levelname": "WARNING", "service": {"name": "a"}},
            {"timestamp": 1772697600000, "message": "m", "level": "warning", "container_name": "a"},
        ]
        records = read_lines("\n".join(json.dumps(body) for body in bodies).encode())
        assert len({(record.text, record.at, record.severity, record.service) for record in records}) == 1
        assert records[0].at == datetime(2026, 3, 5, 8, tzinfo=UTC)

    def test_an_array_and_plain_lines_and_a_mixture_are_read(self) -> None:
        assert [record.text for record in read_lines(b'[{"message":"a"},"b",{"x":1}]')] == ["a", "b", "x=1"]
        assert [record.text for record in read_lines(b'a\n{"message":"b"}\n{broken\n\n')] == ["a", "b", "{broken"]
        assert [record.text for record in read_lines(b"[2026-03-05 08:00:00] WARN x")] == [
            "[2026-03-05 08:00:00] WARN x"
        ]

    def test_a_stack_trace_belongs_to_its_line(self) -> None:
        python = "ERROR oops\nTraceback (most recent call last):\n  File 'a.py'\n    x()\nValueError: bad\nnext"
        assert [record.text.splitlines()[0] for record in read_lines(python.encode())] == [
            "ERROR oops",
            "Traceback (most recent call last):",
            "next",
        ]
        java = "ERROR oops\njava.lang.X: y\n\tat a.B.c(B.java:1)\nCaused by: z\n\t... 3 more\nINFO next"
        texts = [record.text for record in read_lines(java.encode())]
        assert len(texts) == 3
        assert texts[1].endswith("... 3 more")

    def test_bytes_that_are_no_text_are_read_all_the_same(self) -> None:
        assert len(read_lines(b"\xef\xbb\xbfa\xff\xfe\r\nb\x00c")) == 2

    def test_a_broken_array_is_malformed(self) -> None:
        with pytest.raises(Malformed):
            read_lines(b'[{"message":"a"},')

    def test_nothing_is_ignored(self, delivery: Make) -> None:
        assert translate_records(read_lines(b"\n \n"), delivery(b"")).ignored == "no lines in it"

    @pytest.mark.parametrize(
        ("text", "severity"),
        [
            ("E0305 08:00:00.123456    1 x.go:7] boom", "error"),
            ("2026-03-05 08:00:00 WARN x", "warning"),
            ('time="t" level=fatal msg=x', "critical"),
            ("all is well", None),
        ],
    )
    def test_severities_of_plain_lines(self, text: str, severity: str | None) -> None:
        assert read_lines(text.encode())[0].severity == severity

    @pytest.mark.parametrize("value", ["1772697600", 1772697600, 1772697600123, 1772697600123456, 1772697600123456789])
    def test_numbers_of_any_unit_are_times(self, value: object) -> None:
        at = time_of(value)
        assert at is not None
        assert at.replace(microsecond=0) == datetime(2026, 3, 5, 8, tzinfo=UTC)

    @pytest.mark.parametrize("value", [None, True, "", "soon", -5, 10**30, float("nan"), float("inf"), {}, "9" * 400])
    def test_what_is_no_time_is_none(self, value: object) -> None:
        assert time_of(value) is None


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ("took 12ms of 3.5%", "took <NUM> of <NUM>"),
        ("ORA-00600 and PROJ-123 stay", "ORA-00600 and PROJ-123 stay"),
        ("pod checkout-7d9f8b6c5-x2x4z died", "pod checkout<-POD> died"),
        ("id 6f1b2c3d-0000-4000-8000-123456789abc", "id <ID>"),
        ("at 0xdeadbeef commit 9f4c2d7e1b3a", "at <HEX> commit <HEX>"),
        ("from fe80:0:0:1::7 to 10.1.2.3/24", "from <IP> to <IP>"),
        ("2026-03-05T08:00:00.123+01:00 x", "<TIME> x"),
    ],
)
def test_masks(line: str, masked: str) -> None:
    assert mask(line) == masked
