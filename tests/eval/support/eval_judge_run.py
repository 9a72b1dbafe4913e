"""`cairn eval --judge`: the demo's golden questions asked of the real answerer, contexts and answers judged by a model.

Results are a table, `judge.json` with every question's scores, and `judge.png`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import eval_report
import numpy as np
from eval_answers import answerer, answers
from eval_index import Servers, build, demo_runbooks, runbook_events
from eval_judge import METRICS, Judge, Judged, Verdict
from eval_metrics import RESAMPLES, Figure
from eval_sets import Question, golden
from rich.console import Console

from cairn_shared.api.ask import AskResponse

FILE = "judge.json"
COLUMNS = ("metric", "mean (95 %)", "questions")


async def run(console: Console, out: Path, judge: Judge, count: int, *, stamp: str) -> dict[str, Any]:
    """Ask and judge `count` questions, spread over the golden set; show and keep what came of it."""
    out.mkdir(parents=True, exist_ok=True)
    questions = chosen(count)
    servers = Servers()
    try:
        with console.status(f"asking {len(questions)} questions"):
            dsn = await build(servers, "judged", runbook_events(demo_runbooks()))
            with answerer(servers, dsn, out) as address:
                responses = answers(address, questions)
    finally:
        servers.stop()
    with console.status(f"{judge.model} judges {len(questions)} answers"):
        verdicts = await judge.judge(cases_of(questions, responses))
    results = {"when": stamp, **results_of(judge.model, questions, responses, verdicts)}
    show(console, results)
    (out / FILE).write_text(json.dumps(results, default=asdict, indent=2))
    plot(out / FILE.replace(".json", ".png"), results)
    console.print(f"results: {out / FILE}\nplot: {out / FILE.replace('.json', '.png')}")
    return results


def chosen(count: int) -> list[Question]:
    """So many of the questions that have an answer, evenly over all kinds."""
    questions = [question for question in golden() if question.answer is not None]
    return questions[:: max(1, len(questions) // count)][:count]


def cases_of(questions: Sequence[Question], responses: Sequence[AskResponse]) -> list[Judged]:
    """What the judge is shown: the steps in the order in which they were found, and the answer."""
    steps = {book.id: book.steps for book in demo_runbooks()}
    return [
        Judged(
            question.text,
            "\n\n".join(step.body for step in steps[question.answer or ""] if step.number in question.steps),
            [source.content or "" for source in response.sources],
            response.answer,
        )
        for question, response in zip(questions, responses, strict=True)
    ]


def results_of(
    model: str, questions: Sequence[Question], responses: Sequence[AskResponse], verdicts: Sequence[Verdict]
) -> dict[str, Any]:
    """Means with their intervals, and each question with its scores."""
    values = {name: [one.scores[name] for one in verdicts if name in one.scores] for name in METRICS}
    return {
        "judge": model,
        "questions": len(questions),
        "unusable": sum(one.unusable is not None for one in verdicts),
        "modes": dict(Counter(response.mode for response in responses)),
        "metrics": {
            name: {"n": len(numbers), **asdict(_figure(numbers))} for name, numbers in values.items() if numbers
        },
        "each": [
            {"id": question.id, "question": question.text, "mode": response.mode, **asdict(verdict)}
            for question, response, verdict in zip(questions, responses, verdicts, strict=True)
        ],
    }


def _figure(numbers: Sequence[float]) -> Figure:
    """The mean and its bootstrap interval; the same for the same numbers."""
    random = np.random.default_rng(20261201)
    means = random.choice(np.array(numbers), (RESAMPLES, len(numbers))).mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return Figure(float(np.mean(numbers)), float(low), float(high))


def show(console: Console, results: dict[str, Any]) -> None:
    """The table."""
    modes = ", ".join(f"{count} {mode}" for mode, count in results["modes"].items())
    title = f"judged by {results['judge']}: {results['questions']} answers ({modes}), {results['unusable']} verdicts unusable"
    rows = [
        [name, f"{one['value']:.3f} ({one['low']:.2f}-{one['high']:.2f})", str(one["n"])]
        for name, one in results["metrics"].items()
    ]
    eval_report.show_rows(console, title, COLUMNS, rows)
    for one in results["each"]:
        if one["unusable"]:
            console.print(f"[yellow]unusable[/] {one['id']}: {one['unusable']}")


def plot(file: Path, results: dict[str, Any]) -> None:
    """A bar for each metric with its interval, a dot for each question."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    metrics = results["metrics"]
    for place, (name, one) in enumerate(metrics.items()):
        error = [[one["value"] - one["low"]], [one["high"] - one["value"]]]
        axis.bar(place, one["value"], 0.6, yerr=error, color="tab:blue", alpha=0.6)
        scores = [each["scores"][name] for each in results["each"] if name in each["scores"]]
        axis.plot(np.linspace(place - 0.25, place + 0.25, len(scores)), scores, ".", color="black", markersize=3)
    axis.set_xticks(range(len(metrics)), list(metrics))
    axis.set_ylim(0, 1.05)
    axis.set_title(f"{results['questions']} answers, judged by {results['judge']}", fontsize=10)
    figure.savefig(file, dpi=120)
    plt.close(figure)
