"""Whatever a sender sends, a translator gives events that can be kept, or says which field is wrong."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cairn_gateway.sources import alertmanager, cloud_events, github, gitlab, jira, pagerduty
from cairn_gateway.sources.logs import otlp
from cairn_gateway.sources.logs.lines import read_lines
from cairn_gateway.sources.logs.translate import translate_records
from cairn_gateway.sources.model import Delivery, RunbookRepositories, Translation
from cairn_shared.errors import InvalidInput
from cairn_shared.events import decode

PAYLOADS = sorted((Path(__file__).parent / "payloads").glob("*/*.json"))
RECEIVED = datetime(2026, 3, 6, tzinfo=UTC)
GITHUB_EVENTS = (
    ("gitea_push", "push"),
    *((one, one) for one in ("push", "issues", "issue_comment", "pull_request_review", "pull_request")),
    *((one, one) for one in ("deployment_status", "deployment", "release", "workflow_run", "ping", "star")),
)
TRANSLATORS: dict[str, Callable[[Delivery], Translation]] = {
    "github": lambda delivery: github.translate(delivery, RunbookRepositories()),
    "gitlab": lambda delivery: gitlab.translate(delivery, RunbookRepositories()),
    "jira": jira.translate,
    "alertmanager": alertmanager.translate,
    "pagerduty": pagerduty.translate,
}
STRANGE: list[Any] = [
    None, True, 0, -1, 2**70, 1e308, "", " ", "x" * 5000, "\0", "\ud800", "é\u202e", "2026-13-45", "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z", [], {}, [[]], {"a": {}}, [None], "https://[::1", "#1", "PROJ-1", -(2**63), "NaN",
]  # fmt: skip


def deliver(path: Path, body: bytes) -> Delivery:
    event = next((event for start, event in GITHUB_EVENTS if path.stem.startswith(start)), "push")
    return Delivery({"x-github-event": event}, body, RECEIVED)


def kept(translation: Translation) -> None:
    """Every event can go to Kafka and be read again as what it is."""
    assert translation.events or translation.ignored
    for event in translation.events:
        again = decode(event.encode())
        again.body()
        assert again == event
        assert "\0" not in event.encode().decode()


def named(exc: InvalidInput) -> None:
    """A refusal says what is wrong."""
    assert exc.field, exc.detail
    assert "Traceback" not in exc.detail


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [at] if at else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += places(inner, (*at, key))
    return found


def change(payload: Any, at: tuple[Any, ...], value: Any, *, remove: bool) -> None:
    for key in at[:-1]:
        payload = payload[key]
    if remove:
        del payload[at[-1]]
    else:
        payload[at[-1]] = value


@pytest.mark.parametrize("path", PAYLOADS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_place_of_a_golden_payload_may_be_missing_or_strange(path: Path) -> None:
    original = json.loads(path.read_bytes())
    seed = random.Random(path.stem)
    translate = TRANSLATORS[path.parent.name]
    for at in places(original):
        for remove, value in ((True, None), (False, seed.choice(STRANGE)), (False, seed.choice(STRANGE))):
            payload = copy.deepcopy(original)
            change(payload, at, value, remove=remove)
            try:
                kept(translate(deliver(path, json.dumps(payload).encode())))
            except InvalidInput as exc:
                named(exc)


@pytest.mark.parametrize("path", PAYLOADS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_null_is_as_if_the_member_were_not_there(path: Path) -> None:
    """Senders differ: a bot's commit has `"author": null`, Go writes null for an empty map."""
    original = json.loads(path.read_bytes())
    translate = TRANSLATORS[path.parent.name]

    def outcome(at: tuple[Any, ...], *, remove: bool) -> tuple[list[Any], str | None]:
        payload = copy.deepcopy(original)
        change(payload, at, None, remove=remove)
        try:
            # The id of a delivery without one of its own is that of its bytes, which differ.
            made = translate(deliver(path, json.dumps(payload).encode()))
        except InvalidInput as exc:
            return [], exc.field
        return [(one.type, one.subject, one.version, one.payload) for one in made.events], made.ignored

    for at in places(original):
        if isinstance(at[-1], str):
            assert outcome(at, remove=False) == outcome(at, remove=True), at


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
many = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@pytest.mark.parametrize("source", TRANSLATORS)
@many
@given(body=st.binary(max_size=200) | anything.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_taken_or_refused(source: str, body: bytes) -> None:
    try:
        TRANSLATORS[source](Delivery({"x-github-event": "push"}, body, RECEIVED))
    except InvalidInput as exc:
        named(exc)


@many
@given(data=anything, subject=st.none() | st.text(min_size=1, max_size=40), kind=st.text(min_size=1, max_size=20))
def test_any_cloud_event_is_taken_or_refused(data: Any, subject: str | None, kind: str) -> None:
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": kind, "data": data}
    if subject is not None:
        event["subject"] = subject
    delivery = Delivery({"content-type": "application/cloudevents+json"}, json.dumps(event).encode(), RECEIVED)
    try:
        kept(cloud_events.translate(delivery))
    except InvalidInput as exc:
        named(exc)


@many
@given(
    lines=st.lists(
        st.text(max_size=80)
        | anything.map(json.dumps)
        | st.sampled_from(["Traceback (most recent call last):", "  at x"]),
        max_size=30,
    )
)
def test_any_lines_become_templates_whose_counts_add_up(lines: list[str]) -> None:
    body = "\n".join(lines).encode("utf-8", "replace")
    try:
        records = read_lines(body)
    except InvalidInput:
        return
    translation = translate_records(records, Delivery({}, body, RECEIVED))
    kept(translation)
    assert sum(event.payload["count"] for event in translation.events) == len(records)


@many
@given(body=st.binary(max_size=200))
def test_any_bytes_are_an_export_or_malformed(body: bytes) -> None:
    for kind in (otlp.PROTOBUF, otlp.JSON):
        try:
            exported = otlp.read_export(body, kind)
        except InvalidInput:
            continue
        if exported.records:
            kept(translate_records(exported.records, Delivery({}, body, RECEIVED)))
