"""Fitting the gate, leaving one corpus out: a logistic model of there being an answer, its threshold a stated risk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from eval_rank import Table, Weights
from scipy.optimize import minimize

from cairn_retriever.evidence import GATE_FEATURES, gate_features

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """What the gate sees of one question, and whether there is an answer."""

    table: Table
    answerable: bool
    features: Array


def case(table: Table, weights: Weights) -> Case:
    """The first page's evidence, as ranked by `weights`."""
    scores = weights.scores(table)
    return Case(table, bool(table.question.right), gate_features(table.values, scores, table.unknown))


@dataclass(frozen=True)
class Logistic:
    """`weights` has one number for each of `GATE_FEATURES` named, on their own scale."""

    names: tuple[str, ...]
    intercept: float
    weights: Array

    def logits(self, cases: Sequence[Case]) -> Array:
        """Log odds of there being an answer."""
        columns = [GATE_FEATURES.index(name) for name in self.names]
        return np.stack([one.features[columns] for one in cases]) @ self.weights + self.intercept


def fit(cases: Sequence[Case], names: Sequence[str] = GATE_FEATURES, penalty: float = 1.0) -> Logistic:
    """Both classes weigh the same, whatever their numbers."""
    columns = [GATE_FEATURES.index(name) for name in names]
    values = np.stack([one.features[columns] for one in cases])
    truth = np.array([one.answerable for one in cases], dtype=float)
    weight = np.where(truth > 0, 0.5 / truth.mean(), 0.5 / (1.0 - truth.mean()))
    mean, scale = values.mean(axis=0), values.std(axis=0) + 1e-9
    standard = np.concatenate([np.ones((len(values), 1)), (values - mean) / scale], axis=1)

    def loss(weights: Array) -> tuple[float, Array]:
        logits = standard @ weights
        ridge = penalty * np.concatenate([[0.0], weights[1:]])
        value = (weight * (np.logaddexp(0.0, logits) - truth * logits)).sum() + 0.5 * ridge @ weights
        return float(value), standard.T @ (weight * (1.0 / (1.0 + np.exp(-logits)) - truth)) + ridge

    found = minimize(loss, np.zeros(len(names) + 1), jac=True, method="L-BFGS-B")
    weights = found.x[1:] / scale
    return Logistic(tuple(names), float(found.x[0] - weights @ mean), weights)


def threshold_at(logits: Array, answerable: npt.NDArray[np.bool_], refusals: float) -> float:
    """The greatest threshold that refuses at most this share of the answerable."""
    return float(np.quantile(logits[answerable], refusals, method="lower"))
