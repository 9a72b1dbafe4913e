"""Results as tables, JSON and a plot, beside those of the last run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eval_gate import Point
from eval_metrics import Figure
from rich.console import Console
from rich.table import Table

Figures = Mapping[str, Figure]
Results = dict[str, Any]
"""`sets`: set -> system -> slice (all, dev, test, or a kind) -> metric -> Figure, and more beside it."""

LATEST = "latest.json"


def show_set(console: Console, title: str, systems: Mapping[str, Mapping[str, Figures]], before: Any) -> None:
    """One table for one set: a row for each system, all questions first, then both halves."""
    metrics = list(next(iter(systems.values()))["all"])
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("system")
    for metric in metrics:
        table.add_column(f"{metric} (95 %)", justify="right")
    table.add_column("dev " + " ".join(metrics), justify="right")
    table.add_column("test " + " ".join(metrics), justify="right")
    table.add_column("since the last run", justify="right")
    for name, slices in systems.items():
        table.add_row(
            name,
            *(_interval(slices["all"][metric]) for metric in metrics),
            *(" ".join(f"{slices[half][m].value:.3f}" for m in metrics) for half in ("dev", "test")),
            _change(slices["all"], ((before or {}).get(name) or {}).get("all")),
        )
    console.print(table)


def show_kinds(console: Console, title: str, slices: Mapping[str, Figures]) -> None:
    """One system by kinds of questions."""
    kinds = [name for name in slices if name not in ("all", "dev", "test")]
    if not kinds:
        return
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("kind")
    metrics = list(slices["all"])
    for metric in metrics:
        table.add_column(metric, justify="right")
    for kind in kinds:
        table.add_row(kind, *(_interval(slices[kind][metric]) for metric in metrics))
    console.print(table)


def show_rows(console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Any other table."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _interval(figure: Figure) -> str:
    return f"{figure.value:.3f} ({figure.low:.2f}-{figure.high:.2f})"


def _change(now: Figures, before: Any) -> str:
    if not before:
        return ""
    moved = [
        f"{metric} {figure.value - before[metric]['value']:+.3f}"
        for metric, figure in now.items()
        if metric in before and abs(figure.value - before[metric]["value"]) >= 0.0005
    ]
    return ", ".join(moved) or "same"


def last_run(folder: Path) -> Results:
    """The results of the last run, or nothing."""
    file = folder / LATEST
    try:
        found: Results = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return found


def save(folder: Path, results: Results, stamp: str) -> Path:
    """Write the results as JSON, once under their time and once as the latest."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, default=asdict, indent=2)
    (folder / f"{stamp}.json").write_text(text)
    (folder / LATEST).write_text(text)
    return folder / f"{stamp}.json"


def plot(file: Path, sets: Mapping[str, Any], gates: Mapping[str, tuple[Sequence[Point], tuple[float, float]]]) -> None:
    """Bars of each system for each set, with their intervals, and the gate's curves with the points it is run at."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(sets) + 1, figsize=(5.2 * (len(sets) + 1), 4.2), layout="constrained")
    for axis, (title, systems) in zip(axes, sets.items(), strict=False):
        metrics = list(next(iter(systems.values()))["all"])
        width = 0.8 / len(systems)
        for number, (name, slices) in enumerate(systems.items()):
            figures = [slices["all"][metric] for metric in metrics]
            axis.bar(
                [place + number * width for place in range(len(metrics))],
                [one.value for one in figures],
                width,
                yerr=[[one.value - one.low for one in figures], [one.high - one.value for one in figures]],
                error_kw={"linewidth": 0.7},
                label=name,
            )
        axis.set_xticks([place + 0.4 - width / 2 for place in range(len(metrics))], metrics)
        axis.set_ylim(0.5, 1.02)
        axis.set_title(title, fontsize=10)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, loc="outside lower left", ncols=len(labels))
    for name, (points, (answered, refused)) in gates.items():
        refusals, answers = [p.false_refusals for p in points], [p.false_answers for p in points]
        (line,) = axes[-1].step(refusals, answers, where="post", label=name)
        axes[-1].plot(refused, answered, "o", color=line.get_color(), clip_on=False)
    axes[-1].set(xlabel="false refusals", ylabel="false answers", xlim=(0, 0.5), ylim=(0, 1))
    axes[-1].set_title("relevance gate; dots: as shipped", fontsize=10)
    axes[-1].legend(fontsize=7)
    figure.savefig(file, dpi=120)
    plt.close(figure)
