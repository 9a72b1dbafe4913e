"""Lines of text as log records: plain lines, JSON lines, a JSON array, or a mixture.

A line that claims nothing is taken as it is: logs are full of half-written lines, and a bad line must not cost the
good ones beside it. Lines of a stack trace belong to the line above them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import orjson

from cairn_gateway.sources.errors import Malformed
from cairn_gateway.sources.logs.records import LogRecord, flat, severity_of, time_of

MAX_TEXT = 8_000
MAX_LINES_JOINED = 200

_MESSAGE = ("message", "msg", "log", "body", "text", "event", "MESSAGE", "@message", "short_message")
_TIME = ("timestamp", "time", "@timestamp", "ts", "datetime", "date", "eventTime", "asctime", "_timestamp")
_LEVEL = ("level", "severity", "lvl", "log.level", "loglevel", "severity_text", "levelname", "severityText")
_SERVICE = (
    "service.name",
    "service",
    "service_name",
    "app",
    "application",
    "kubernetes.labels.app.kubernetes.io/name",
    "kubernetes.labels.app",
    "kubernetes.container_name",
    "container_name",
    "SYSLOG_IDENTIFIER",
)
_HOST = ("host.name", "host", "hostname", "kubernetes.host", "kubernetes.pod_name", "_HOSTNAME", "node")
_STACK = ("stack_trace", "stacktrace", "stack", "exception.stacktrace", "exc_info", "exception", "traceback", "error")

_LEADING_TIME = re.compile(
    r"^\[?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(?: ?(Z|UTC|[+-]\d\d:?\d\d)(?![\w:]))?\]?"
)
_LEADING_LEVEL = re.compile(
    r"\b(TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|CRIT(?:ICAL)?|SEVERE|FATAL|PANIC|ALERT|EMERG)\b"
    r"|level=\"?([A-Za-z]+)"
)
# klog: Lmmdd hh:mm:ss.uuuuuu
_KLOG = re.compile(r"^([IWEF])\d{4} \d\d:\d\d:\d\d\.\d+ ")
_KLOG_LEVELS = {"I": "info", "W": "warning", "E": "error", "F": "critical"}
_CONTINUES = re.compile(r"^(?:\s+\S|Caused by: |\.\.\. \d+ more|\s*$)")


def read_lines(body: bytes, service: str | None = None) -> list[LogRecord]:
    """The records of `body`, whose service is `service` where they do not name one.

    Raises:
        Malformed: it starts as a JSON array and is none.
    """
    text = body.decode("utf-8", errors="replace").removeprefix("\ufeff")
    if text.lstrip().startswith("["):
        found = _array(body)
        if found is not None:
            return [record for one in found if (record := _from_json(one, service))]
    return list(_from_lines(text, service))


def _array(body: bytes) -> list[Any] | None:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        # `[2024-05-01 10:00:00] ...` is how many loggers begin a line.
        if body.lstrip()[:2] in (b"[{", b"[\n", b"[\r", b'["', b"[ "):
            raise Malformed("the body starts as a JSON array, but is not valid JSON", field="body") from exc
        return None
    return value if isinstance(value, list) else None


def _from_lines(text: str, service: str | None) -> Iterator[LogRecord]:
    held: list[str] = []
    in_traceback = False
    for raw in text.split("\n"):
        line = raw.rstrip("\r")
        if line.startswith("{") and (record := _json_line(line, service)):
            yield from _plain(held, service)
            held, in_traceback = [], False
            yield record
            continue
        continues = bool(held) and len(held) < MAX_LINES_JOINED and bool(_CONTINUES.match(line))
        # The last line of a Python traceback, the error itself, is not indented.
        ends_traceback = in_traceback and bool(held) and not continues
        if continues or ends_traceback:
            held.append(line)
            in_traceback = in_traceback and continues
            continue
        yield from _plain(held, service)
        held = [line]
        in_traceback = False
        if line.rstrip().endswith("Traceback (most recent call last):"):
            in_traceback = True
    yield from _plain(held, service)


def _plain(lines: list[str], service: str | None) -> Iterator[LogRecord]:
    text = "\n".join(lines).strip()[:MAX_TEXT]
    if not text:
        return
    at: datetime | None = None
    severity: str | None = None
    if match := _LEADING_TIME.match(text):
        at = time_of(match[1] + (match[2] or "").replace("UTC", "Z"))
    if match := _KLOG.match(text):
        severity = _KLOG_LEVELS[match[1]]
    elif match := _LEADING_LEVEL.search(text[:120]):
        severity = severity_of(match[1] or match[2])
    yield LogRecord(text=text, at=at, service=service, severity=severity)


def _json_line(line: str, service: str | None) -> LogRecord | None:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return _from_json(value, service)


def _from_json(value: Any, service: str | None) -> LogRecord | None:
    if isinstance(value, str):
        return LogRecord(text=value.strip()[:MAX_TEXT], service=service) if value.strip() else None
    fields = flat(value)
    message = _first(fields, _MESSAGE)
    if message is None:
        # A record without a message is its fields, but what changes in every record.
        noise = {*_TIME, *_SERVICE, *_HOST, *_LEVEL}
        message = " ".join(f"{name}={text}" for name, text in fields.items() if name not in noise)
    stack = _first(fields, _STACK)
    text = "\n".join(filter(None, [message, stack if stack and stack not in message else None])).strip()
    if not text:
        return None
    return LogRecord(
        text=text[:MAX_TEXT],
        at=time_of(_first(fields, _TIME)),
        service=_first(fields, _SERVICE) or service,
        severity=severity_of(_first(fields, _LEVEL)),
        host=_first(fields, _HOST),
    )


def _first(fields: dict[str, str], names: tuple[str, ...]) -> str | None:
    return next((fields[name] for name in names if fields.get(name, "").strip()), None)
