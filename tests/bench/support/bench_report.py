"""The table at the end of `make bench`: figures, targets, and ratios to a reference measured in the same run."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from open_load import Result
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parents[3] / "bench-results"


@dataclass(frozen=True)
class Row:
    """One measurement. `targets` are upper limits for the figures of the same name; `load` the machine's at its end."""

    what: str
    figures: dict[str, float]
    targets: dict[str, float]
    load: float
    note: str = ""

    @property
    def met(self) -> bool:
        return all(self.figures[name] < limit for name, limit in self.targets.items())


@dataclass
class Report:
    """Everything that a run measured. `reference`: milliseconds of a bare request to the gateway, by rate."""

    reference: float = float("nan")
    rows: list[Row] = field(default_factory=list)

    def add(self, what: str, figures: dict[str, float], note: str = "", **targets: float) -> Row:
        """A row; the names of figures end with their unit (`p50_ms`)."""
        row = Row(what, figures, targets, os.getloadavg()[0], note)
        self.rows.append(row)
        return row

    def add_load(self, what: str, result: Result, note: str = "", **targets: float) -> Row:
        """A row of latencies. A run in which the client itself was late says so."""
        figures = {f"p{share}_ms": result.quantile(share / 100) for share in (50, 95, 99)}
        late = f"client late by {result.late * 1000:.0f} ms" if result.late > 0.05 else ""
        return self.add(what, figures, ", ".join(text for text in (note, late) if text), **targets)

    def save(self) -> Path:
        """As JSON, beside those of earlier runs."""
        RESULTS.mkdir(exist_ok=True)
        now = datetime.now(UTC)
        path = RESULTS / f"stack-{now:%Y%m%dT%H%M%SZ}.json"
        body = {
            "at": now.isoformat(),
            "processors": os.cpu_count(),
            "reference_ms": self.reference,
            "rows": [asdict(row) | {"met": row.met} for row in self.rows],
        }
        path.write_text(json.dumps(body, indent=1) + "\n")
        return path

    def show(self) -> None:
        """Print the table. x: times the p50 of a bare `GET /health` of the gateway."""
        table = Table(
            title=f"One-machine stack, {os.cpu_count()} processors; x: {self.reference:.2f} ms, bare GET /health"
        )
        for column in ("what", "figures", "x", "target", "load"):
            table.add_column(column)
        for row in self.rows:
            figures = "  ".join(f"{name.replace('_', ' ')} {value:.1f}" for name, value in row.figures.items())
            ratio = f"{row.figures['p50_ms'] / self.reference:.1f}" if "p50_ms" in row.figures else ""
            targets = ", ".join(f"{name.replace('_', ' ')} < {limit:g}" for name, limit in row.targets.items())
            verdict = f"{targets}: {'met' if row.met else 'MISSED'}" if targets else ""
            table.add_row(
                row.what, figures + (f"  ({row.note})" if row.note else ""), ratio, verdict, f"{row.load:.1f}"
            )
        Console(width=160).print(table)
