"""`.cairn/env`: secrets that are generated once and kept, and the address of the gateway. Mode 600."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

GENERATED: Mapping[str, Callable[[], str]] = {
    "CAIRN_API_KEY": lambda: f"cairn_{secrets.token_urlsafe(32)}",
    "GITHUB_WEBHOOK_SECRET": lambda: secrets.token_hex(32),
    "GITLAB_WEBHOOK_TOKEN": lambda: secrets.token_hex(32),
    "JIRA_WEBHOOK_SECRET": lambda: secrets.token_hex(32),
    "ALERTMANAGER_TOKEN": lambda: secrets.token_hex(32),
    "PAGERDUTY_WEBHOOK_SECRET": lambda: secrets.token_hex(32),
    "POSTGRES_PASSWORD": lambda: secrets.token_hex(24),
    "REDIS_PASSWORD": lambda: secrets.token_hex(24),
}
HEADER = "# Written by cairn-local: secrets of the one-machine stack, generated once. Keep it private.\n"


def read(path: Path) -> dict[str, str]:
    """The variables in the file; none where there is no file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    values = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            values[name.strip()] = value.strip()
    return values


def ensure(path: Path, **known: str) -> dict[str, str]:
    """Add what is missing, set `known`, keep everything else, and make the file private. Returns all of it."""
    before = read(path)
    values = {name: before.get(name) or make() for name, make in GENERATED.items()} | known
    values = {**{name: value for name, value in before.items() if name not in values}, **values}
    if values != before:
        _write(path, HEADER + "".join(f"{name}={value}\n" for name, value in values.items()))
    path.chmod(0o600)
    return values


def _write(path: Path, text: str) -> None:
    """Replace the file at once, never readable by others, never half written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
