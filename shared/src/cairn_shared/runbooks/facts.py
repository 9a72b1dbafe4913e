"""What the index says about a runbook beside its text, made in one way only: to write it and to verify it."""

from __future__ import annotations

from collections.abc import Iterable


def folded(names: Iterable[str]) -> tuple[str, ...]:
    """Names of alerts, or addresses, as the index compares them: without case, each once."""
    return tuple(dict.fromkeys(name.strip().casefold() for name in names if name.strip()))


def runbook_labels(source: str) -> dict[str, str]:
    """The labels of a runbook's document."""
    return {"source": source}
