from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from whole_stack import Stack, running_stack

sys.path.insert(0, str(Path(__file__).parent / "support"))

if TYPE_CHECKING:
    from bench_report import Report


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The whole stack with the demo runbooks, for those who measure it from outside."""
    with running_stack(tmp_path_factory.mktemp("bench") / "home", CIRCUIT_OPEN_SECONDS="60") as running:
        running.run("cairn", "seed")
        yield running


@pytest.fixture(scope="package")
def report() -> Iterator[Report]:
    """The figures of this run, printed and saved at its end."""
    from bench_report import Report

    report = Report()
    yield report
    if report.rows:
        report.show()
        print(f"saved as {report.save().name} in bench-results/")


@pytest.fixture(scope="package")
def reference(stack: Stack, report: Report) -> None:
    """A bare request to the gateway, which the other figures are compared with."""
    from stack_load import measure, plan

    health = replace(plan(stack, "/health", [], rate=200, seconds=5), method="GET")
    report.reference = measure(report, "GET /health of the gateway, 200/s", health, "the reference").quantile(0.5)
