"""Metrics by ir-measures, with bootstrap intervals over the questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ir_measures
import numpy as np
import numpy.typing as npt
from eval_run import Outcome
from ir_measures import RR, R, Success, nDCG

MEASURES = {"R@1": R @ 1, "R@5": R @ 5, "MRR": RR, "nDCG@10": nDCG @ 10}
STEP = "step@3"
RESAMPLES = 2_000


@dataclass(frozen=True)
class Figure:
    """A mean over questions and its 95 % percentile interval."""

    value: float
    low: float
    high: float


def measure(outcomes: Sequence[Outcome]) -> dict[str, Figure]:
    """Metrics over the answerable questions among `outcomes`; empty when there are none.

    A document counts where it first appears. `step@3` is whether one of the right steps is among the first three
    results; it is there when the set names steps.
    """
    answerable = [outcome for outcome in outcomes if outcome.question.answer is not None]
    if not answerable:
        return {}
    qrels = [ir_measures.Qrel(one.question.id, str(one.question.answer), 1) for one in answerable]
    run = [
        ir_measures.ScoredDoc(one.question.id, document, 1.0 / place)
        for one in answerable
        for place, document in enumerate(one.documents, 1)
    ]
    ids = [one.question.id for one in answerable]
    figures = {name: _figure(_values(kind, qrels, run, ids)) for name, kind in MEASURES.items()}
    if any(one.question.steps for one in answerable):
        figures[STEP] = _figure(_steps(answerable, ids))
    return figures


def _steps(outcomes: Sequence[Outcome], ids: Sequence[str]) -> npt.NDArray[np.float64]:
    qrels = [
        ir_measures.Qrel(one.question.id, f"{one.question.answer}#{step}", 1)
        for one in outcomes
        for step in sorted(one.question.steps)
    ]
    run = [
        ir_measures.ScoredDoc(one.question.id, f"{document}#{step}", 1.0 / place)
        for one in outcomes
        for place, (document, step) in enumerate(one.steps, 1)
    ]
    return _values(Success @ 3, qrels, run, ids)


def _values(
    kind: ir_measures.Measure,
    qrels: Sequence[ir_measures.Qrel],
    run: Sequence[ir_measures.ScoredDoc],
    ids: Sequence[str],
) -> npt.NDArray[np.float64]:
    """One value a question; a question without any result has 0."""
    found = {metric.query_id: metric.value for metric in ir_measures.iter_calc([kind], qrels, run)}
    return np.array([found.get(one, 0.0) for one in ids])


def _figure(values: npt.NDArray[np.float64]) -> Figure:
    random = np.random.default_rng(0)
    means = values[random.integers(0, len(values), size=(RESAMPLES, len(values)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return Figure(float(values.mean()), float(low), float(high))
