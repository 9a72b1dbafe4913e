"""The fitted model of runbooks: which page, which of its steps, and whether there is an answer at all.

`page_model.json` is written by the evaluation (`make eval ARGS=--fit`), which says how it is fitted and judged. What is
left to do here is a sum of products.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from cairn_retriever.features import Array

VERSION = 1
"""Of the features' meaning: a model of another version is refused."""


@dataclass(frozen=True)
class Linear:
    """A weighted sum of named features."""

    weights: Mapping[str, float]
    intercept: float = 0.0

    def of(self, names: Sequence[str], values: Array) -> Array:
        """The sums for the rows of `values`, whose columns are `names`."""
        return values @ np.array([self.weights.get(name, 0.0) for name in names]) + self.intercept


@dataclass(frozen=True)
class Variant:
    """The model for what there is to go by: words and vectors, or one of them."""

    pages: Linear
    steps: Linear
    gate: Linear
    threshold: float
    """Log odds from which there is an answer."""


@dataclass(frozen=True)
class PageModel:
    """All variants, by the mode of the search."""

    variants: Mapping[str, Variant]
    fitted: Mapping[str, Any]
    """What it was fitted on, for people."""


def read_model(content: str) -> PageModel:
    """The model in a file's content.

    Raises:
        ValueError: it is of another version.
    """
    stored = json.loads(content)
    if stored["version"] != VERSION:
        raise ValueError(f"the page model has version {stored['version']}, wanted is {VERSION}")
    return PageModel(
        {
            mode: Variant(
                Linear(one["pages"]),
                Linear(one["steps"]),
                Linear(one["gate"], one["intercept"]),
                one["threshold"],
            )
            for mode, one in stored["variants"].items()
        },
        stored["fitted"],
    )


@cache
def shipped_model() -> PageModel:
    """The one that comes with the retriever."""
    return read_model((files("cairn_retriever") / "page_model.json").read_text(encoding="utf-8"))
