"""Alerts, server-sent events, Markdown in colour, and text that must not steer a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cairn_gateway.cli.alerts import parse_alert, question_for
from cairn_gateway.cli.answer import place
from cairn_gateway.cli.exits import Rejected, UsageError
from cairn_gateway.cli.markdown import styled
from cairn_gateway.cli.options import segment
from cairn_gateway.cli.screen import clean

SOURCES = Path(__file__).parents[1] / "sources" / "payloads"
LABELS = {"alertname": "RedisDown", "instance": "redis-1"}
ANNOTATIONS = {"summary": "Redis is down", "runbook_url": "https://runbooks.example.com/redis-down"}
ONE = {"status": "firing", "labels": LABELS, "annotations": ANNOTATIONS}
EXPECTED = {
    "name": "RedisDown",
    "labels": LABELS,
    "annotations": ANNOTATIONS,
    "runbook_url": "https://runbooks.example.com/redis-down",
}
RESOLVED = {"status": "resolved", "labels": {"alertname": "Old"}, "annotations": {}}


@pytest.mark.parametrize(
    "value",
    [
        ONE,
        {"version": "4", "groupLabels": {}, "alerts": [RESOLVED, ONE]},
        [{"status": {"state": "suppressed"}, "labels": {"alertname": "Old"}}, ONE | {"status": {"state": "active"}}],
        EXPECTED,
    ],
    ids=["one alert", "webhook", "alertmanager api", "our own shape"],
)
def test_an_alert_is_found_in_every_shape_it_comes_in(value: Any) -> None:
    assert parse_alert(json.dumps(value)) == EXPECTED


def test_a_resolved_alert_is_better_than_none() -> None:
    assert parse_alert(json.dumps({"alerts": [RESOLVED]}))["name"] == "Old"


def test_pagerduty_s_webhook_is_the_alert_of_its_incident() -> None:
    payload = json.loads((SOURCES / "pagerduty" / "incident_triggered.json").read_bytes())
    alert = parse_alert(json.dumps(payload))
    title = payload["event"]["data"]["title"]
    assert alert["annotations"] == {"summary": title}
    assert alert["labels"]["service"] == payload["event"]["data"]["service"]["summary"]
    assert question_for(alert) == title
    nested = {"event": {"data": {"type": "incident_responder", "incident": {"summary": "Disk full"}}}}
    assert parse_alert(json.dumps(nested))["annotations"] == {"summary": "Disk full"}
    with pytest.raises(Rejected, match="no incident"):
        parse_alert('{"event": {"event_type": "pagey.ping", "data": {"message": "hello"}}}')


def test_label_values_become_strings() -> None:
    assert parse_alert('{"labels": {"alertname": "A", "code": 500}}')["labels"] == {"alertname": "A", "code": "500"}


@pytest.mark.parametrize("text", ["", "{", "[]", "[1]", "3", "{}", '{"alerts": []}', '{"labels": [1]}'])
def test_what_is_no_alert_is_rejected_by_name(text: str) -> None:
    with pytest.raises(Rejected, match=r"^alert: "):
        parse_alert(text)


@pytest.mark.parametrize(
    ("alert", "question"),
    [
        (EXPECTED, "RedisDown: Redis is down"),
        ({"name": "A"}, "A"),
        ({"runbook_url": "https://x.example.com/y"}, "https://x.example.com/y"),
        ({"labels": {"service": "redis"}}, "redis"),
    ],
)
def test_an_alert_alone_makes_a_question(alert: dict[str, Any], question: str) -> None:
    assert question_for(alert) == question


def test_markdown_keeps_its_lines_and_loses_only_the_marks_of_spans() -> None:
    text = "# Fix\n1. Run `ls -l` **now** [Redis down, Step 2]\n```\n# `no` heading **here**\n```\nend"
    made = styled(text)
    assert made.plain == "# Fix\n1. Run ls -l now [Redis down, Step 2]\n```\n# `no` heading **here**\n```\nend"
    styles = {made.plain[span.start : span.end].strip(): str(span.style) for span in made.spans}
    assert styles["# Fix"] == "bold"
    assert styles["ls -l"] == "cyan"
    assert styles["[Redis down, Step 2]"] == "green"
    assert styles["# `no` heading **here**"] == "cyan"


def test_a_fence_closes_only_with_its_own_kind() -> None:
    made = styled("~~~~\n```\n# x\n~~~~\n# y\n")
    styles = {made.plain[span.start : span.end].strip(): str(span.style) for span in made.spans}
    assert (styles["# x"], styles["# y"]) == ("cyan", "bold")


@settings(deadline=None)  # the machine may be busy
@given(st.text())
def test_clean_text_holds_no_control_character(text: str) -> None:
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in clean(text) if char not in "\n\t")


def test_clean_text_is_otherwise_untouched() -> None:
    assert clean("a\tb\nü 漢 🪨\r\n") == "a\tb\nü 漢 🪨\n"


@pytest.mark.parametrize(
    ("path", "lines", "expected"),
    [("a.md", [3, 9], "a.md:3-9"), ("a.md", [3, 3], "a.md:3"), ("a.md", None, "a.md"), (None, [1, 2], "")],
)
def test_a_place_is_written_as_editors_open_it(path: str | None, lines: list[int] | None, expected: str) -> None:
    assert place(path, lines) == expected


def test_an_id_is_one_segment_whatever_it_holds() -> None:
    assert segment("a/b?c#d e%") == "a%2Fb%3Fc%23d%20e%25"


@pytest.mark.parametrize("identifier", ["", ".", ".."])
def test_an_id_that_a_client_would_resolve_is_refused(identifier: str) -> None:
    with pytest.raises(UsageError):
        segment(identifier)
