"""Measuring and fitting the relevance gate on what was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import asyncpg
import numpy as np
import orjson
from eval_gate import Case, Fit, Point, case_of, curve, fit, operating_point, rates
from eval_index import without_page
from eval_run import Outcome, page_of, retriever

Cases = Mapping[str, Sequence[Case]]
HALVES = ("dev", "test")
FEATURES = ("cosine", "coverage", "gap")

MOST_REFUSALS = 0.02
"""Of questions to tune on: what others ask is refused more often than that, and the limit for those is 5 %."""

Row = list[str]


async def leave_one_out(dsn: str, embedder: str, outcomes: Sequence[Outcome]) -> list[Case]:
    """Each answerable question asked again with its page taken away: questions without an answer, of the hardest kind."""
    removed: list[Case] = []
    async with retriever(dsn, embedder) as asked:
        for one in outcomes:
            if one.question.answer is not None:
                async with without_page(dsn, one.question.answer):
                    removed.append(case_of(await asked.ask(one.question, page_of), answerable=False))
    return removed


def half_of(cases: Sequence[Case], half: str) -> list[Case]:
    return [case for case in cases if case.half == half]


def as_shipped(cases: Cases) -> tuple[dict[str, Any], list[Row]]:
    """Both rates of the gate as it stands, and what any threshold could do; as results and as rows of a table."""
    results: dict[str, Any] = {}
    rows: list[Row] = []
    for name, chosen in cases.items():
        results[name] = {
            "curve": [asdict(point) for point in curve(chosen)],
            "cases": [asdict(case) for case in chosen],
        }
        for half in HALVES:
            mine = half_of(chosen, half)
            answered, refused = rates(mine)
            best = operating_point(curve(mine))
            results[name][half] = {
                "false_answers": answered,
                "false_refusals": refused,
                "at_5_percent_refusals": asdict(best),
            }
            without, having = (sum(case.answerable is wanted for case in mine) for wanted in (False, True))
            rows.append(
                [
                    f"{name}, {half}",
                    f"{answered:.3f} of {without}",
                    f"{refused:.3f} of {having}",
                    f"{best.false_answers:.3f} at {best.threshold:.2f}",
                ]
            )
    return results, rows


def calibrate(asked: Sequence[Case], cases: Cases) -> tuple[dict[str, float], list[Row]]:
    """The gate's numbers, fitted to `asked`, and what they do to each of `cases`."""
    model = fit(asked)
    point = operating_point(curve(asked, _probabilities(model, asked)), MOST_REFUSALS)
    numbers = {"intercept": model.intercept, **dict(zip(FEATURES, model.weights, strict=True))}
    numbers["threshold"] = point.threshold
    rows = [[name, f"{value:.4f}"] for name, value in numbers.items()]
    for name, chosen in cases.items():
        for half in HALVES:
            mine = half_of(chosen, half)
            at = _at(curve(mine, _probabilities(model, mine)), point.threshold)
            rows.append(
                [f"{name}, {half}: false answers / refusals", f"{at.false_answers:.3f} / {at.false_refusals:.3f}"]
            )
    return numbers, rows


def _probabilities(model: Fit, cases: Sequence[Case]) -> list[float]:
    return [float(one) for one in model.probability(np.array([case.features for case in cases]))]


def _at(points: Sequence[Point], threshold: float) -> Point:
    """Rates change at the values that occur: those at the next one from `threshold` on hold there."""
    return min((point for point in points if point.threshold >= threshold), key=lambda point: point.threshold)


async def fingerprint_of(dsn: str) -> str:
    """The embedding model of an index."""
    connection = await asyncpg.connect(dsn)
    try:
        return str(await connection.fetchval("SELECT fingerprint FROM corpus_state"))
    finally:
        await connection.close()


async def store(dsn: str, fingerprint: str, numbers: Mapping[str, float]) -> None:
    """Put the numbers where the retriever of `dsn` reads them, for this model only."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(
            "UPDATE corpus_state SET thresholds = thresholds || $1::jsonb",
            orjson.dumps({fingerprint: dict(numbers)}).decode(),
        )
    finally:
        await connection.close()
