"""The relevance gate: how often it lets a question without an answer pass, against how often it refuses one with."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from eval_run import Outcome

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """One question at the gate. `features` are cosine, coverage and gap.

    `exact` passes whatever they are, `foreign` (the page is about another product) does not.

    Without vectors only the coverage is known; the others are 0.
    """

    id: str
    half: str
    answerable: bool
    exact: bool
    foreign: bool
    features: tuple[float, float, float]
    confidence: float
    enough: bool


@dataclass(frozen=True)
class Point:
    """A threshold and what it costs."""

    threshold: float
    false_answers: float
    false_refusals: float


@dataclass(frozen=True)
class Fit:
    """A logistic model: its probability is 1 / (1 + exp(-(intercept + weights . features)))."""

    intercept: float
    weights: tuple[float, float, float]

    def probability(self, features: Floats) -> Floats:
        """One probability a row of `features`, shape (n, 3)."""
        logits: Floats = self.intercept + features @ np.array(self.weights)
        return 1.0 / (1.0 + np.exp(-logits))


def case_of(outcome: Outcome, *, answerable: bool | None = None) -> Case:
    """What the gate saw of a question; `answerable` overrules the set, for pages that are not there."""
    gate, explained = outcome.response.gate, outcome.response.explain or {}
    evidence = explained["evidence"]["runbooks"] or {"cosine": 0.0, "coverage": 0.0, "gap": 0.0}
    return Case(
        id=outcome.question.id,
        half=outcome.question.half,
        answerable=outcome.question.answer is not None if answerable is None else answerable,
        exact=explained["certain"],
        foreign=evidence.get("foreign", False),
        features=(evidence["cosine"] or 0.0, evidence["coverage"], evidence["gap"]),
        confidence=gate.confidence,
        enough=gate.enough,
    )


def rates(cases: Sequence[Case]) -> tuple[float, float]:
    """(false answers, false refusals) of the gate as it is, as shares of the questions without and with an answer."""
    without = [case for case in cases if not case.answerable]
    having = [case for case in cases if case.answerable]
    return (
        sum(case.enough for case in without) / max(1, len(without)),
        sum(not case.enough for case in having) / max(1, len(having)),
    )


def curve(cases: Sequence[Case], probabilities: Sequence[float] | None = None) -> list[Point]:
    """Both rates at every threshold that makes a difference, rising."""
    values = [case.confidence for case in cases] if probabilities is None else list(probabilities)
    scored = [(1.1 if case.exact else value, case.answerable) for case, value in zip(cases, values, strict=True)]
    without, having = sum(not answer for _, answer in scored), sum(answer for _, answer in scored)
    thresholds = sorted({value for value, _ in scored if value <= 1.0} | {0.0, 1.0})
    return [
        Point(
            threshold,
            sum(value >= threshold and not answer for value, answer in scored) / max(1, without),
            sum(value < threshold and answer for value, answer in scored) / max(1, having),
        )
        for threshold in thresholds
    ]


def operating_point(points: Sequence[Point], most_refusals: float = 0.05) -> Point:
    """The fewest false answers with at most `most_refusals` false refusals."""
    allowed = [point for point in points if point.false_refusals <= most_refusals]
    return min(allowed, key=lambda point: (point.false_answers, point.threshold))


def fit(cases: Sequence[Case], *, penalty: float = 0.01, rounds: int = 50) -> Fit:
    """Logistic regression by iteratively reweighted least squares, on the cases that are not exact.

    Both classes weigh the same, because how many of each a set has says nothing about what will be asked.
    """
    chosen = [case for case in cases if not case.exact and not case.foreign]
    features = np.array([[1.0, *case.features] for case in chosen])
    answers = np.array([float(case.answerable) for case in chosen])
    weight = np.where(answers == 1.0, 0.5 / answers.sum(), 0.5 / (1.0 - answers).sum()) * len(chosen)
    beta = np.zeros(4)
    ridge = penalty * np.diag([0.0, 1.0, 1.0, 1.0])
    for _ in range(rounds):
        guess = 1.0 / (1.0 + np.exp(-features @ beta))
        curvature = weight * guess * (1.0 - guess)
        gradient = features.T @ (weight * (answers - guess)) - ridge @ beta
        step = np.linalg.solve((features.T * curvature) @ features + ridge + 1e-9 * np.eye(4), gradient)
        beta = beta + step
        if np.abs(step).max() < 1e-8:
            break
    return Fit(float(beta[0]), (float(beta[1]), float(beta[2]), float(beta[3])))


def probabilities(model: Fit, cases: Sequence[Case]) -> list[float]:
    """What `model` gives each case."""
    found = model.probability(np.array([case.features for case in cases]))
    return [0.0 if case.foreign else float(one) for case, one in zip(cases, found, strict=True)]


def validated(cases: Sequence[Case], folds: int = 5) -> list[float]:
    """For each case the probability by a model that was fitted without its question."""
    fold_of = [hashlib.sha256(b"fold" + case.id.encode()).digest()[0] % folds for case in cases]
    found = [0.0] * len(cases)
    for fold in range(folds):
        model = fit([case for case, its in zip(cases, fold_of, strict=True) if its != fold])
        for place, probability in enumerate(probabilities(model, cases)):
            if fold_of[place] == fold:
                found[place] = probability
    return found
