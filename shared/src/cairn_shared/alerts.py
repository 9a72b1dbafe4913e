"""The alert somebody was paged for, out of whatever JSON they have. Pure, and light enough for the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WITHOUT_USE = (
    "has no name, labels, annotations or runbook_url: give an alert as Alertmanager writes it (`labels` with an "
    "`alertname`), or the whole body of its webhook"
)


def one_alert(value: Any) -> Any:
    """One alert out of Alertmanager's webhook body or its API's list: the first that is firing, else the first.

    What the alerts of a webhook share stands in it beside them; the alert's own labels and annotations win. Anything
    else is given back as it is.

    Raises:
        ValueError: there is no alert in the list.
    """
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


def _merged(common: Any, own: Any) -> Any:
    if own is not None and not isinstance(own, Mapping):
        return own  # wrong: whoever reads it says so
    return {**(common if isinstance(common, Mapping) else {}), **(own or {})}


def _state(alert: Mapping[str, Any]) -> str:
    status = alert.get("status")
    return str(status.get("state") if isinstance(status, Mapping) else status or "firing")
