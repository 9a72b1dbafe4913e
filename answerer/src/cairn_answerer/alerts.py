"""Values of the alert that a question is about, for the placeholders in commands. Secrets are left out: what is
filled in is shown and kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cairn_shared.api.ask import AskRequest
from cairn_shared.redaction import redact

_MAX_STARTS = 20


def label_values(request: AskRequest) -> dict[str, str]:
    """Labels of the request's alert, or of the Alertmanager JSON pasted into its question, but for secrets."""
    return {name: value for name, value in _all_labels(request).items() if not _is_secret(name, value)}


def _is_secret(name: str, value: str) -> bool:
    told = f"{name}={value}"
    return redact(told) != told


def _all_labels(request: AskRequest) -> dict[str, str]:
    if request.alert is not None and request.alert.labels:
        return dict(request.alert.labels)
    if '"alertname"' not in request.question and '"labels"' not in request.question:
        return {}
    for value in _objects(request.question):
        if labels := _labels(value):
            return labels
    return {}


def _labels(value: Any) -> dict[str, str]:
    if isinstance(value, list):
        return next((found for item in value[:10] if (found := _labels(item))), {})
    if not isinstance(value, dict):
        return {}
    alerts = value.get("alerts")
    if isinstance(alerts, list) and alerts:
        common = _strings(value.get("commonLabels"))
        # Several alerts: only what they share may be filled into a command.
        return common if len(alerts) > 1 else {**common, **_labels(alerts[0])}
    return _strings(value.get("labels")) or (_strings(value) if isinstance(value.get("alertname"), str) else {})


def _strings(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    return {str(name): text for name, text in value.items() if isinstance(text, str)}


def _objects(text: str) -> list[Any]:
    decoder = json.JSONDecoder()
    found: list[Any] = []
    position = 0
    for _ in range(_MAX_STARTS):
        starts = [place for place in (text.find("{", position), text.find("[", position)) if place >= 0]
        if not starts:
            break
        try:
            value, position = decoder.raw_decode(text, min(starts))
        except (ValueError, RecursionError):
            position = min(starts) + 1
        else:
            found.append(value)
    return found
