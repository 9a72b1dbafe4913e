"""Measuring and fitting the relevance gate on what was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import asyncpg
import orjson
from eval_gate import Case, Point, case_of, curve, fit, operating_point, probabilities, rates, validated
from eval_index import without_page
from eval_run import Outcome, page_of, retriever
from eval_sets import Question

Cases = Mapping[str, Sequence[Case]]
HALVES = ("dev", "test")
FEATURES = ("cosine", "coverage", "gap")

MOST_REFUSALS = 0.02
"""Of questions to tune on: what others ask is refused more often than that, and the limit for those is 5 %."""

MOST_REFUSALS_ALONE = 0.025
"""The same without vectors, where words tell less."""

THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

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


async def nowhere(dsn: str, embedder: str, questions: Sequence[Question]) -> list[Case]:
    """Questions asked of a corpus that is about something else."""
    async with retriever(dsn, embedder) as asked:
        outcomes = await asked.ask_all((one for one in questions if not one.elsewhere), page_of)
    return [case_of(one, answerable=False) for one in outcomes]


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


def by_threshold(cases: Cases) -> list[Row]:
    """Rows of a table: false answers / false refusals of the test halves at each of `THRESHOLDS`."""
    curves = [curve(half_of(chosen, "test")) for chosen in cases.values()]
    return [
        [
            f"{threshold:.2f}",
            *(f"{(at := _at(one, threshold)).false_answers:.3f} / {at.false_refusals:.3f}" for one in curves),
        ]
        for threshold in THRESHOLDS
    ]


def calibrate(asked: Sequence[Case], alone: Sequence[Case], cases: Cases) -> tuple[dict[str, float], list[Row]]:
    """The gate's numbers, fitted to `asked` and, where there are no vectors, `alone`; and what they do to `cases`.

    The threshold is chosen on probabilities of models that did not know the question.
    """
    model = fit(asked)
    point = operating_point(curve(asked, validated(asked)), MOST_REFUSALS)
    worded = operating_point(curve(alone, [case.features[1] for case in alone]), MOST_REFUSALS_ALONE)
    numbers = {"intercept": model.intercept, **dict(zip(FEATURES, model.weights, strict=True))}
    numbers |= {"threshold": point.threshold, "words_alone": worded.threshold}
    rows = [[name, f"{value:.4f}"] for name, value in numbers.items()]
    rows.append(["dev, cross-validated: false answers / refusals", _both(point)])
    rows.append(["dev, without vectors: false answers / refusals", _both(worded)])
    for name, chosen in cases.items():
        for half in HALVES:
            mine = half_of(chosen, half)
            at = _at(curve(mine, probabilities(model, mine)), point.threshold)
            rows.append([f"{name}, {half}: false answers / refusals", _both(at)])
    return numbers, rows


def _both(point: Point) -> str:
    return f"{point.false_answers:.3f} / {point.false_refusals:.3f}"


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
