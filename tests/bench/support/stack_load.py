"""Load for the one-machine stack, reported as it is measured."""

from __future__ import annotations

import json
from collections.abc import Sequence

from bench_report import Report
from open_load import Plan, Result, run
from whole_stack import Stack

JSON = {"content-type": "application/json"}


def plan(stack: Stack, path: str, bodies: Sequence[object], *, rate: float, seconds: float) -> Plan:
    """JSON bodies to a path of the gateway, with the admin's key."""
    headers = JSON | {"authorization": stack.http.headers["authorization"]}
    return Plan(address(stack) + path, [json.dumps(body) for body in bodies], rate, seconds, headers=headers)


def address(stack: Stack) -> str:
    """Where the gateway is."""
    return f"{stack.http.base_url}".rstrip("/")


def measure(report: Report, what: str, load: Plan, note: str = "", status: str = "200", **targets: float) -> Result:
    """Carry out and report; what was not answered with `status` is in the table too, and fails the test."""
    result = run(load)
    refused = {**result.errors, **{code: count for code, count in result.statuses.items() if code != status}}
    trouble = ", ".join(f"{count} x {name}" for name, count in refused.items())
    report.add_load(what, result, ", ".join(text for text in (note, trouble) if text), **targets)
    assert not refused, trouble
    return result
