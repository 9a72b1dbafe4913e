"""Alerts pasted into a question."""

from __future__ import annotations

import json

import pytest
from growth import assert_linear

from cairn_retriever.alerts import find_alerts

WEBHOOK = {
    "version": "4",
    "status": "firing",
    "commonLabels": {"alertname": "KubePodCrashLooping"},
    "alerts": [
        {
            "status": "firing",
            "labels": {"alertname": "KubePodCrashLooping", "pod": "web-7d9c", "severity": "warning"},
            "annotations": {"summary": "Pod is crash looping.", "runbook_url": "https://runbooks/kubepodcrashlooping"},
        }
    ],
}


def test_webhook_body_among_words() -> None:
    found, prose = find_alerts(f"what is this? {json.dumps(WEBHOOK)} please help")
    assert [one.name for one in found] == ["KubePodCrashLooping"]
    assert found[0].told == ("Pod is crash looping.",)
    assert found[0].runbook_url == "https://runbooks/kubepodcrashlooping"
    assert "web-7d9c" in found[0].labels
    assert "warning" not in found[0].labels
    assert prose == "what is this? please help"


def test_one_alert_as_the_api_gives_it() -> None:
    found, prose = find_alerts(json.dumps(WEBHOOK["alerts"][0]))  # type: ignore[index]
    assert [one.name for one in found] == ["KubePodCrashLooping"]
    assert prose == ""


def test_list_of_alerts() -> None:
    found, _ = find_alerts(json.dumps(WEBHOOK["alerts"]))
    assert [one.name for one in found] == ["KubePodCrashLooping"]


def test_bare_labels() -> None:
    assert find_alerts('{"alertname": "DiskFull", "instance": "db-1"}')[0][0].name == "DiskFull"


def test_notification_as_chat_shows_it() -> None:
    found, _ = find_alerts("[FIRING:2] KubePodCrashLooping (web-7d9c warning)")
    assert [one.name for one in found] == ["KubePodCrashLooping"]


def test_label_as_text() -> None:
    assert find_alerts('ALERTS{alertname="DiskFull", job="node"}')[0][0].name == "DiskFull"


def test_other_json_is_left_alone() -> None:
    text = 'the service answers {"error": {"code": 500}} to everything'
    assert find_alerts(text) == ([], text)


@pytest.mark.parametrize("unit", ["{", '{"a":', "[{"])
def test_a_log_full_of_braces_is_read_in_linear_time(unit: str) -> None:
    assert_linear(lambda size: find_alerts(unit * (size // len(unit))), 30_000)


def test_wrong_types_are_ignored() -> None:
    bodies: list[object] = [
        {"alerts": [1, None, "x"]},
        {"labels": [1], "annotations": 3},
        {"labels": {"alertname": 5}},
        [[[]]],
    ]
    for body in bodies:
        assert find_alerts(json.dumps(body))[0] == []
