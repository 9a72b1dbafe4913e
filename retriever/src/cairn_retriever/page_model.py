"""The fitted order of runbooks: what each feature of a page weighs.

`page_model.json` is written by the evaluation (`make eval ARGS=--fit`), which says how it is fitted and judged. What is
left to do here is a sum of products.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from cairn_retriever.features import Array

VERSION = 1
"""Of what the features mean: a model of another version is refused."""


@dataclass(frozen=True)
class Linear:
    """A weighted sum of named features."""

    weights: Mapping[str, float]

    def of(self, names: Sequence[str], values: Array) -> Array:
        """The sums for the rows of `values`, whose columns are `names`."""
        sums: Array = values @ np.array([self.weights.get(name, 0.0) for name in names])
        return sums


@dataclass(frozen=True)
class PageModel:
    """What pages are ranked by, for each mode of a search; `keyword` also where no vectors are to be had."""

    pages: Mapping[str, Linear]


def read_model(content: str) -> PageModel:
    """The model in a file's content.

    Raises:
        ValueError: it is of another version.
    """
    stored = json.loads(content)
    if stored["version"] != VERSION:
        raise ValueError(f"the page model has version {stored['version']}, wanted is {VERSION}")
    return PageModel({mode: Linear(weights) for mode, weights in stored["pages"].items()})


@cache
def shipped_model() -> PageModel:
    """The one that comes with the retriever."""
    return read_model((files("cairn_retriever") / "page_model.json").read_text(encoding="utf-8"))
