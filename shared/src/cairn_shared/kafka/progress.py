"""How a handler that is slow, but not stuck, keeps the watchdog quiet."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

_report: ContextVar[Callable[[], None] | None] = ContextVar("kafka_progress", default=None)


def still_working() -> None:
    """Say that something was achieved. Call it after a step that is bounded in time, never from a timer.

    Outside a worker it does nothing.
    """
    report = _report.get()
    if report is not None:
        report()


def report_to(report: Callable[[], None]) -> None:
    """Where the signs of life of the present task go. For the worker."""
    _report.set(report)
