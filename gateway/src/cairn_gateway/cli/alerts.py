"""The alert somebody was paged for, from whatever JSON they have, as `/ask` takes it."""

from __future__ import annotations

import json
from typing import Any

from cairn_gateway.cli.exits import Rejected

Alert = dict[str, Any]


def parse_alert(text: str) -> Alert:
    """An alert from Alertmanager's webhook body, one of its alerts, its API's list, or Cairn's own shape.

    Of several alerts the first that is firing counts.

    Raises:
        Rejected: no alert can be found in it.
    """
    try:
        value = json.loads(text)
    except ValueError as exc:
        raise Rejected(f"alert: not JSON ({exc})") from exc
    if isinstance(value, dict) and isinstance(value.get("alerts"), list):
        value = value["alerts"]
    if isinstance(value, list):
        alerts = [item for item in value if isinstance(item, dict)]
        if not alerts:
            raise Rejected("alert: the list holds no alert")
        value = next((alert for alert in alerts if _state(alert) in {"firing", "active"}), alerts[0])
    if not isinstance(value, dict):
        raise Rejected("alert: must be a JSON object")
    labels, annotations = _strings(value, "labels"), _strings(value, "annotations")
    alert = {
        "name": value.get("name") or labels.get("alertname"),
        "labels": labels,
        "annotations": annotations,
        "runbook_url": value.get("runbook_url") or annotations.get("runbook_url"),
    }
    if not alert["name"] and not alert["runbook_url"] and not labels:
        raise Rejected("alert: has neither a name, labels nor a runbook_url")
    return {name: member for name, member in alert.items() if member}


def question_for(alert: Alert) -> str:
    """What to ask when there is only the alert."""
    annotations = alert.get("annotations", {})
    text = annotations.get("description") or annotations.get("summary") or annotations.get("message")
    parts = [str(part) for part in (alert.get("name"), text) if part]
    return ": ".join(parts) or str(alert.get("runbook_url") or " ".join(alert.get("labels", {}).values()))


def _state(alert: Alert) -> str:
    status = alert.get("status")
    return str(status.get("state") if isinstance(status, dict) else status or "firing")


def _strings(value: Alert, member: str) -> dict[str, str]:
    found = value.get(member) or {}
    if not isinstance(found, dict):
        raise Rejected(f"alert: {member} must be a JSON object")
    return {str(name): text if isinstance(text, str) else json.dumps(text) for name, text in found.items()}
