from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cairn_gateway.sources import alertmanager
from cairn_gateway.sources.model import Delivery, Translation
from cairn_shared.errors import InvalidInput
from cairn_shared.events import arrival

RECEIVED = datetime(2026, 3, 6, 12, tzinfo=UTC)
LATER = RECEIVED + timedelta(seconds=1)
Make = Callable[..., Delivery]
Golden = Callable[[str], bytes]
Translate = Callable[[str], Translation]


@pytest.fixture
def translate(delivery: Make, golden: Golden) -> Translate:
    return lambda name: alertmanager.translate(delivery(golden(f"alertmanager/{name}")))


def test_an_alert_is_one_document_with_one_part_an_episode(translate: Translate) -> None:
    firing, resolved = translate("firing").events[:2], translate("resolved").events
    assert {event.subject for event in [*firing, *resolved]} == {"0a1b2c3d4e5f6071"}
    assert [event.payload["part"] for event in firing] == [event.payload["part"] for event in resolved]
    assert [after.version > before.version for before, after in zip(firing, resolved, strict=True)] == [True, True]
    state = resolved[0].payload
    assert state["status"] == "resolved"
    assert state["title"] == "KubePodCrashLooping: Pod is crash looping."
    assert state["labels"]["pod"] == "checkout-7d9f8b6c5-x2x4z"
    assert state["references"] == ["https://runbooks.prometheus-operator.dev/runbooks/kubernetes/kubepodcrashlooping"]
    for searched in ("namespace=shop", "is in waiting state", "Resolved: 2026-03-05T08:12:30", "kubepodcrashlooping"):
        assert searched in state["body"]


def test_only_episodes_count_and_they_have_no_text_of_their_own(translate: Translate) -> None:
    state, episode = translate("resolved").events
    assert (state.payload["count"], episode.payload["count"]) == (0, 1)
    assert (episode.payload["title"], episode.payload["body"]) == ("", "")
    assert episode.payload["first_seen"] == "2026-03-05T08:00:00.123456Z"
    assert episode.payload["last_seen"] == "2026-03-05T08:12:30Z"


def test_a_group_that_is_sent_again_is_the_same_events_whatever_its_order(
    translate: Translate, delivery: Make, golden: Golden
) -> None:
    payload = json.loads(golden("alertmanager/firing"))
    payload["alerts"].reverse()
    again = alertmanager.translate(delivery(json.dumps(payload)))
    assert {event.encode() for event in again.events} == {event.encode() for event in translate("firing").events}


def test_a_second_episode_is_another_part_of_the_same_document(delivery: Make, golden: Golden) -> None:
    payload = json.loads(golden("alertmanager/firing"))
    first = alertmanager.translate(delivery(json.dumps(payload))).events
    payload["alerts"][0]["startsAt"] = "2026-03-06T08:00:00Z"
    second = alertmanager.translate(delivery(json.dumps(payload), received_at=LATER)).events
    assert first[1].payload["part"] != second[1].payload["part"]
    assert first[0].document_id() == second[0].document_id()
    assert second[0].version > first[0].version


def told(*steps: tuple[float, str, str, str]) -> list[str]:
    """What is shown after each of `steps` (second of arrival, address, status, began): the state of the highest rank."""
    shown: list[str] = []
    best: tuple[int, int] = (-1, -1)
    resolved_by: dict[str, str] = {}
    for second, peer, status, began in steps:
        at = RECEIVED + timedelta(seconds=second)
        alert = {"status": status, "labels": {"alertname": "Down"}, "startsAt": began, "fingerprint": "f1"}
        body = json.dumps({"version": "4", "alerts": [alert], "groupKey": "{}", "externalURL": "http://am"})
        translation = alertmanager.translate(Delivery({}, body.encode(), at, peer))
        event = alertmanager.informed(translation, resolved_by, at)[0]
        resolved_by |= {one.subject: one.sender for one in translation.tellings if one.over}
        if (rank := (event.version, arrival(at))) > best:
            best, state = rank, status
        shown.append(state)
    return shown


BEGAN, EARLIER, AGAIN = "2026-03-06T11:00:00Z", "2026-03-06T10:59:30Z", "2026-03-06T12:00:02Z"


@pytest.mark.parametrize(
    ("steps", "shown"),
    [
        pytest.param(
            [(0, "a", "firing", BEGAN), (1, "a", "resolved", BEGAN), (2, "a", "firing", BEGAN)],
            ["firing", "resolved", "firing"],
            id="timed out, and heard of again",
        ),
        pytest.param(
            [(0, "a", "firing", BEGAN), (1, "a", "resolved", BEGAN), (16, "b", "firing", BEGAN)],
            ["firing", "resolved", "resolved"],
            id="a stale repeat of another member of the cluster",
        ),
        pytest.param(
            [(0, "a", "firing", BEGAN), (1, "a", "resolved", BEGAN), (301, "b", "firing", BEGAN)],
            ["firing", "resolved", "firing"],
            id="another member, an interval later: it fires",
        ),
        pytest.param(
            [(0, "a", "firing", BEGAN), (1, "a", "resolved", BEGAN), (3, "b", "firing", AGAIN)],
            ["firing", "resolved", "firing"],
            id="another member with a new episode",
        ),
        pytest.param(
            [(0, "a", "firing", BEGAN), (1, "a", "firing", EARLIER), (2, "a", "resolved", EARLIER)],
            ["firing", "firing", "resolved"],
            id="another Prometheus saw it earlier",
        ),
        pytest.param(
            [(0, "a", "firing", "2026-03-07T12:00:00Z"), (1, "a", "resolved", "2026-03-07T12:00:00Z")],
            ["firing", "resolved"],
            id="a clock that is a day ahead",
        ),
    ],
)
def test_what_an_alertmanager_says_later_is_the_state(
    steps: list[tuple[float, str, str, str]], shown: list[str]
) -> None:
    assert told(*steps) == shown


def test_an_alert_without_a_fingerprint_is_known_by_its_labels(delivery: Make, golden: Golden) -> None:
    payload = json.loads(golden("alertmanager/firing"))
    for alert in payload["alerts"]:
        del alert["fingerprint"]
    subjects = [event.subject for event in alertmanager.translate(delivery(json.dumps(payload))).events]
    assert len(set(subjects)) == 2


def test_what_the_receiver_cut_off_is_said(delivery: Make, golden: Golden) -> None:
    payload = json.loads(golden("alertmanager/firing")) | {"truncatedAlerts": 3}
    assert "3 alerts were cut off" in alertmanager.translate(delivery(json.dumps(payload))).notes[0]


def test_no_alerts_are_ignored(delivery: Make) -> None:
    assert alertmanager.translate(delivery('{"version": "4", "alerts": []}')).ignored == "no alerts in it"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda payload: payload.pop("alerts"), "alerts"),
        (lambda payload: [one.update(status="maybe") for one in payload["alerts"]], "alerts.0.status"),
        (lambda payload: [one.pop("labels") for one in payload["alerts"]], "alerts.0.labels"),
    ],
)
def test_a_wrong_field_is_named(delivery: Make, golden: Golden, change: Callable[[Any], object], field: str) -> None:
    payload = json.loads(golden("alertmanager/firing"))
    change(payload)
    with pytest.raises(InvalidInput) as caught:
        alertmanager.translate(delivery(json.dumps(payload)))
    assert caught.value.field == field
