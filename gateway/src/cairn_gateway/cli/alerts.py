"""The alert somebody was paged for, from whatever JSON they have, as `/ask` takes it."""

from __future__ import annotations

import json
from typing import Any

from cairn_gateway.cli.exits import Rejected
from cairn_shared.alerts import WITHOUT_USE, one_alert

Alert = dict[str, Any]


def parse_alert(text: str) -> Alert:
    """An alert from a webhook body of Alertmanager, Grafana or PagerDuty, one alert, a list, or Cairn's own shape.

    Of several alerts the first that is firing counts.

    Raises:
        Rejected: no alert can be found in it.
    """
    try:
        value = json.loads(text)
    except ValueError as exc:
        raise Rejected(f"alert: not JSON ({exc})") from exc
    try:
        value = one_alert(value)
    except ValueError as exc:
        raise Rejected(f"alert: {exc}") from exc
    if not isinstance(value, dict):
        raise Rejected("alert: must be a JSON object")
    labels, annotations = _strings(value, "labels"), _strings(value, "annotations")
    alert = {
        "name": value.get("name") or labels.get("alertname"),
        "labels": labels,
        "annotations": annotations,
        "runbook_url": value.get("runbook_url") or annotations.get("runbook_url"),
    }
    if not any(alert.values()):
        raise Rejected(f"alert: {WITHOUT_USE}")
    return {name: member for name, member in alert.items() if member}


def question_for(alert: Alert) -> str:
    """What to ask when there is only the alert."""
    annotations = alert.get("annotations", {})
    text = annotations.get("description") or annotations.get("summary") or annotations.get("message")
    parts = [str(part) for part in (alert.get("name"), text) if part]
    return ": ".join(parts) or str(alert.get("runbook_url") or " ".join(alert.get("labels", {}).values()))


def _strings(value: Alert, member: str) -> dict[str, str]:
    found = value.get(member) or {}
    if not isinstance(found, dict):
        raise Rejected(f"alert: {member} must be a JSON object")
    return {str(name): text if isinstance(text, str) else json.dumps(text) for name, text in found.items()}
