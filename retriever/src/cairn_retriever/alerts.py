"""Alerts inside a query: Alertmanager's JSON pasted among words, or the text that chat notifications show."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cairn_shared.api.search import AlertContext

MAX_ALERTS = 10
MAX_JSON_STARTS = 20
"""Opening braces from which JSON is tried: a log full of braces must stay cheap."""

_TOLD = ("summary", "description", "message", "title")
_LINKS = ("runbook_url", "runbook", "runbookURL", "runbook_link")
_ASSIGNED = re.compile(r"\balertname\s*[=:]\s*\"?([A-Za-z][\w.:-]{1,199})")
_NOTIFIED = re.compile(r"\[(?:FIRING|RESOLVED)(?::\d+)?\]\s*([A-Za-z][\w.:-]{1,199})")
_QUIET_LABELS = frozenset({"alertname", "severity", "prometheus", "job", "endpoint", "__name__"})


@dataclass(frozen=True)
class FoundAlert:
    """An alert as far as the request states it."""

    name: str | None
    told: tuple[str, ...] = ()
    """Its summary, description and the like."""
    labels: tuple[str, ...] = ()
    """Values of labels that may be identifiers somewhere: pods, hosts, services."""
    runbook_url: str | None = None

    @classmethod
    def of(cls, alert: AlertContext) -> FoundAlert:
        """From the request's own field."""
        return _found(alert.name, alert.labels, alert.annotations, alert.runbook_url)


def find_alerts(text: str) -> tuple[list[FoundAlert], str]:
    """The alerts stated in `text`, and what is left of it without their JSON."""
    found: list[FoundAlert] = []
    prose: list[str] = []
    end = 0
    for start, stop, value in _json_objects(text):
        alerts = list(_from_json(value))
        if alerts:
            found.extend(alerts)
            prose.append(text[end:start])
            end = stop
    prose.append(text[end:])
    rest = " ".join(part.strip() for part in prose).strip() if found else text
    for pattern in (_ASSIGNED, _NOTIFIED):
        found.extend(FoundAlert(match[1].rstrip(".:-")) for match in pattern.finditer(rest))
    return found[:MAX_ALERTS], rest


def _json_objects(text: str) -> Iterator[tuple[int, int, Any]]:
    decoder = json.JSONDecoder()
    position = 0
    for _ in range(MAX_JSON_STARTS):
        starts = [place for place in (text.find("{", position), text.find("[{", position)) if place >= 0]
        if not starts:
            return
        start = min(starts)
        try:
            value, stop = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            position = start + 1
            continue
        yield start, stop, value
        position = stop


def _from_json(value: Any) -> Iterator[FoundAlert]:
    """Alertmanager's webhook body, its API's list, one alert, or a bare set of labels."""
    if isinstance(value, list):
        for item in value[:MAX_ALERTS]:
            yield from _from_json(item)
        return
    if not isinstance(value, dict):
        return
    alerts = value.get("alerts")
    if isinstance(alerts, list) and alerts:
        for item in alerts[:MAX_ALERTS]:
            yield from _from_json(item)
        return
    labels = _strings(value.get("labels") or value.get("commonLabels"))
    annotations = _strings(value.get("annotations") or value.get("commonAnnotations"))
    if not labels and isinstance(value.get("alertname"), str):
        labels = _strings(value)
    name = labels.get("alertname")
    if name or any(key in annotations for key in (*_TOLD, *_LINKS)):
        yield _found(name, labels, annotations, None)


def _strings(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {str(key): item[:4000] for key, item in value.items() if isinstance(item, str)}


def _found(
    name: str | None, labels: Mapping[str, str], annotations: Mapping[str, str], runbook_url: str | None
) -> FoundAlert:
    return FoundAlert(
        name=name or labels.get("alertname"),
        told=tuple(annotations[key] for key in _TOLD if annotations.get(key)),
        labels=tuple(value for key, value in labels.items() if key not in _QUIET_LABELS),
        runbook_url=runbook_url or next((annotations[key] for key in _LINKS if annotations.get(key)), None),
    )
