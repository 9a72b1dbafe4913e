"""One log record, whatever format it came in, and reading times as loggers write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import AwareDatetime, TypeAdapter, ValidationError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = TypeAdapter(AwareDatetime)
_UNITS = ((10**17, 1_000), (10**14, 1), (10**11, 0.001), (10**8, 0.000_001))
"""A number of at least so much counts nano-, micro-, milliseconds or seconds; and how many of it make a microsecond."""

SEVERITIES = {
    "trace": "trace",
    "debug": "debug",
    "info": "info",
    "information": "info",
    "notice": "info",
    "warn": "warning",
    "warning": "warning",
    "err": "error",
    "error": "error",
    "severe": "error",
    "crit": "critical",
    "critical": "critical",
    "fatal": "critical",
    "panic": "critical",
    "alert": "critical",
    "emerg": "critical",
    "emergency": "critical",
}


@dataclass(frozen=True)
class LogRecord:
    """`at` is None where the record does not say when; `service` and `host` where it does not say whose."""

    text: str
    at: datetime | None = None
    service: str | None = None
    severity: str | None = None
    host: str | None = None


def time_of(value: Any) -> datetime | None:
    """A time as loggers write it: RFC 3339, with a space or a comma in it, without a zone (then UTC), or a number of
    seconds, milli-, micro- or nanoseconds since 1970. None when it is none of these.
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        text = value.strip().replace(",", ".")
        try:
            value = float(text) if "." in text else int(text)
        except ValueError:
            return _written(text)
    if not isinstance(value, (int, float)):
        return None
    for least, per_microsecond in _UNITS:
        if least <= value < least * 1000:
            return _EPOCH + timedelta(microseconds=int(value / per_microsecond))
    return None


def _written(text: str) -> datetime | None:
    for candidate in (text, f"{text}Z"):
        try:
            return _TIME.validate_python(candidate).astimezone(UTC)
        except (ValidationError, OverflowError):
            continue
    return None


def severity_of(value: Any) -> str | None:
    """The severity in our words: trace, debug, info, warning, error or critical."""
    return SEVERITIES.get(str(value).strip().lower()) if value is not None else None


def flat(value: Any, prefix: str = "", limit: int = 200) -> dict[str, str]:
    """A JSON value as dotted names with texts, at most `limit` of them."""
    found: dict[str, str] = {}
    _flatten(value, prefix, found, limit)
    return found


def _flatten(value: Any, name: str, found: dict[str, str], limit: int) -> None:
    if len(found) >= limit:
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _flatten(inner, f"{name}.{key}" if name else str(key), found, limit)
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            _flatten(inner, f"{name}.{index}" if name else str(index), found, limit)
    elif value is not None and value != "":
        found[name or "value"] = str(value)
