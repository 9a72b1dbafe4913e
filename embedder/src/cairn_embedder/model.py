"""What passes between the parts of the embedder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Kind: TypeAlias = Literal["query", "passage"]

Vector: TypeAlias = npt.NDArray[np.float32]
"""Shape (dimension,), or (texts, dimension) for several."""


@dataclass(frozen=True)
class Tokens:
    """One text as the model takes it: ids with special tokens; `count` is how many there were before it was cut.

    `text` is what a model elsewhere is sent, prefix included and cut to `ids`; empty where the model is here.
    """

    ids: tuple[int, ...]
    count: int
    text: str = ""

    @property
    def truncated(self) -> bool:
        """Whether it was cut to fit."""
        return len(self.ids) < self.count
