"""Answers by selection, measured and reported beside the retrieval: a table and `answers.json`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import eval_report
from eval_answers_plans import Tally, measure, read_books
from eval_sets import corpora
from rich.console import Console

FILE = "answers.json"
COLUMNS = ("plans of models", "plans", "failed")


def run(console: Console, out: Path) -> list[str]:
    """Measure all plans, show and keep the figures. Returns what failed, in words: nothing may."""
    folder = corpora()
    prepared = folder.parent / "eval" / "answers" if folder else None
    if folder is None:
        console.print("[yellow]no public corpora: plans are measured on the demo runbooks alone[/]")
    elif prepared is None or not prepared.is_dir():
        console.print("[yellow]no prepared answers beside the corpora: only plans made mechanically are measured[/]")
        prepared = None
    with console.status("plans of models, honest and lying"):
        tallies = measure(read_books(folder), prepared)
    rows = [
        [f"{name}: {kind}", str(one.plans), str(one.failed)]
        for name, kinds in tallies.items()
        for kind, one in kinds.items()
    ]
    eval_report.show_rows(console, "what is told of a model's plan", COLUMNS, rows)
    out.mkdir(parents=True, exist_ok=True)
    (out / FILE).write_text(json.dumps(_as_json(tallies), indent=2))
    return [
        f"{name}: {kind}: {one.failed} of {one.plans}, such as {one.examples[0]}"
        for name, kinds in tallies.items()
        for kind, one in kinds.items()
        if one.failed
    ]


def _as_json(tallies: dict[str, dict[str, Tally]]) -> dict[str, Any]:
    return {name: {kind: asdict(one) for kind, one in kinds.items()} for name, kinds in tallies.items()}
