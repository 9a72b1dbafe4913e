"""Fitting the ranking of pages, leaving one corpus out: a conditional logit over the candidates of each question.

McFadden, "Conditional logit analysis of qualitative choice behavior" (1974): of the pages of a question one is chosen
with a probability proportional to exp(weights . features); with several right ones their probabilities are added.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from eval_evidence import Evidence
from eval_made import Made

from cairn_retriever.features import EITHER_WAY, FEATURES, Asked, page_table
from cairn_retriever.lexical import idf
from cairn_retriever.policy import LexicalPolicy

Array = npt.NDArray[np.float64]

ROUNDS = 50
PENALTY = 1.0
"""Of the squared weights of standardised features, beside the likelihood of thousands of questions: keeps it finite."""


@dataclass(frozen=True)
class Table:
    """The candidate pages of one question: features, their keys, and which are right."""

    question: Made
    pages: Sequence[str]
    values: Array
    right: npt.NDArray[np.bool_]
    unknown: float


def table(found: Evidence, keys: dict[str, str], gone: frozenset[str] = frozenset()) -> Table:
    """What the retriever would see of the question if the pages `gone` did not exist."""
    left = [one for one in found.candidates if keys[str(one.document_id)] not in gone]
    lost = [one for one in found.candidates if keys[str(one.document_id)] in gone]
    asked = _asked(found, lost)
    made = page_table(left, asked, LexicalPolicy())
    pages = [keys[str(document)] for document in made.documents]
    right = np.array([page in found.question.right and page not in gone for page in pages], dtype=bool)
    return Table(found.question, pages, made.values, right, made.unknown)


def _asked(found: Evidence, lost: Sequence[object]) -> Asked:
    read = found.read
    runbooks = read.runbooks
    lexemes = list(read.lexemes)
    if lost:
        counts = (np.array([one.fields for one in lost]) > 0).sum(axis=0)  # type: ignore[attr-defined]
        fewer = {
            one.lexeme: max(0, runbooks.frequency(one.lexeme) - int(n)) for one, n in zip(lexemes, counts, strict=True)
        }
        frequencies = ChainMap(fewer, dict(runbooks.frequencies))
        runbooks = replace(runbooks, chunks=runbooks.chunks - len(lost), frequencies=frequencies)
        lexemes = [
            replace(one, runbook_idf=one.likeness * idf(runbooks.chunks, fewer[one.lexeme]) if one.runbook_idf else 0.0)
            for one in lexemes
        ]
    total = max(read.prepared.state.chunks, 1)
    weights = {one: idf(total, n) for one, n in read.prepared.identifier_documents.items()}
    return Asked(read.query.embed_text, lexemes, runbooks, read.phrases, weights)


@dataclass(frozen=True)
class Weights:
    """Of the features of the same name, on their own scale."""

    names: tuple[str, ...]
    values: Array

    def scores(self, table: Table) -> Array:
        """Of the pages of a question, in their order."""
        return table.values[:, [FEATURES.index(name) for name in self.names]] @ self.values


def fit(tables: Sequence[Table], names: Sequence[str] = FEATURES) -> Weights:
    """The weights that make the right pages most likely, none of evidence negative.

    What would speak against a page by being there is left out, the worst first, and the rest is fitted again: weights
    of opposite signs on features that rise together fit these corpora, and surprise on one of three pages.
    """
    chosen = tuple(names)
    while True:
        found = _fit(tables, chosen)
        against = [(value * scale, name) for name, value, scale in found if name not in EITHER_WAY and value < 0.0]
        if not against:
            return Weights(chosen, np.array([value for _, value, _ in found]))
        worst = min(against)[1]
        chosen = tuple(name for name in chosen if name != worst)


def _fit(tables: Sequence[Table], names: Sequence[str], penalty: float = PENALTY) -> list[tuple[str, float, float]]:
    """Names, weights and the spread of each feature, by Newton's method."""
    useful = [one for one in tables if one.right.any() and not one.right.all()]
    columns = [FEATURES.index(name) for name in names]
    values = np.concatenate([one.values[:, columns] for one in useful])
    right = np.concatenate([one.right for one in useful])
    starts = np.cumsum([0, *(len(one.pages) for one in useful[:-1])])
    sizes = [len(one.pages) for one in useful]
    group = np.repeat(np.arange(len(useful)), sizes)
    scale = values.std(axis=0) + 1e-9
    standard = values / scale

    weights = np.zeros(len(names))
    for _ in range(ROUNDS):
        scores = standard @ weights
        scores -= np.maximum.reduceat(scores, starts)[group]
        odds = np.exp(scores)
        share = odds / np.add.reduceat(odds, starts)[group]
        good = odds * right / (np.add.reduceat(odds * right, starts) + 1e-300)[group]
        gradient = (good - share) @ standard - penalty * weights
        means = np.add.reduceat(share[:, None] * standard, starts)
        curvature = (standard * share[:, None]).T @ standard - means.T @ means + penalty * np.eye(len(names))
        step = np.linalg.solve(curvature, gradient)
        weights += step * min(1.0, 2.0 / (np.abs(step).max() + 1e-9))
        if np.abs(step).max() < 1e-4:
            break
    return list(zip(names, (weights / scale).tolist(), scale.tolist(), strict=True))


def place(scores: Array, right: npt.NDArray[np.bool_]) -> int:
    """Rank of the best right page from 1, 0 where none is among the candidates."""
    if not right.any():
        return 0
    return 1 + int((scores > scores[right].max()).sum())
