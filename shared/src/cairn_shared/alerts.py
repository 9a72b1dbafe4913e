"""The alert somebody was paged for, out of whatever JSON they have. Pure, and light enough for the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WITHOUT_USE = (
    "has no name, labels, annotations or runbook_url: give an alert as Alertmanager writes it (`labels` with an "
    "`alertname`), or the whole body of its webhook"
)


def one_alert(value: Any) -> Any:
    """One alert out of Alertmanager's or Grafana's webhook body, or its API's list: the first that is firing, else
    the first. PagerDuty's webhook body is the alert of its incident.

    What the alerts of a webhook share stands in it beside them; the alert's own labels and annotations win. Anything
    else is given back as it is.

    Raises:
        ValueError: there is no alert in the list.
    """
    if isinstance(value, Mapping) and isinstance(value.get("event"), Mapping):
        return _of_incident(value["event"])
    common: Mapping[str, Any] = {}
    if isinstance(value, Mapping) and ("alerts" in value or "commonLabels" in value):
        common = value
        value = value.get("alerts") or ([{}] if value.get("commonLabels") else [])
    if not isinstance(value, list | tuple):
        return value
    alerts = [item for item in value if isinstance(item, Mapping)]
    if not alerts:
        raise ValueError("the list holds no alert")
    alert = next((item for item in alerts if _state(item) in {"firing", "active"}), alerts[0])
    if not common:
        return alert
    return {
        **alert,
        "labels": _merged(common.get("commonLabels"), alert.get("labels")),
        "annotations": _merged(common.get("commonAnnotations"), alert.get("annotations")),
    }


def _of_incident(event: Mapping[str, Any]) -> dict[str, Any]:
    """An incident of PagerDuty (v3 webhooks): its title is all that it says of the alert, its service a label."""
    data = event.get("data")
    incident = data.get("incident") or data if isinstance(data, Mapping) else {}
    title = incident.get("title") or incident.get("summary") if isinstance(incident, Mapping) else None
    if not isinstance(title, str) or not title.strip():
        raise ValueError("the event of PagerDuty has no incident with a title")
    service = incident.get("service")
    name = service.get("summary") if isinstance(service, Mapping) else None
    labels = {"service": name} if isinstance(name, str) and name else {}
    urgency = incident.get("urgency")
    return {
        "labels": labels | ({"severity": urgency} if isinstance(urgency, str) else {}),
        "annotations": {"summary": title},
    }


def _merged(common: Any, own: Any) -> Any:
    if own is not None and not isinstance(own, Mapping):
        return own  # wrong: whoever reads it says so
    return {**(common if isinstance(common, Mapping) else {}), **(own or {})}


def _state(alert: Mapping[str, Any]) -> str:
    status = alert.get("status")
    return str(status.get("state") if isinstance(status, Mapping) else status or "firing")
