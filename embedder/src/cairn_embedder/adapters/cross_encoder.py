"""A sentence-transformers cross-encoder on the CPU: query and passage are read together, which costs a pass a pair."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cairn_embedder.errors import WrongSetting

BATCH = 16


@dataclass(frozen=True)
class RerankerChoice:
    """Which reranker to load; see the settings of the same names."""

    name: str
    revision: str | None = None
    max_tokens: int = 256


class CrossEncoderScorer:
    """The port `Scorer` over a loaded model."""

    def __init__(self, model: Any, name: str) -> None:
        self._model = model
        self.name = name

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        from torch import nn

        scores = self._model.predict(
            [(query, passage) for passage in passages],
            batch_size=BATCH,
            show_progress_bar=False,
            activation_fn=nn.Sigmoid(),
        )
        return [float(score) for score in scores]


def load_reranker(choice: RerankerChoice) -> CrossEncoderScorer:
    """Load the model; takes seconds, and downloads it where it is not at hand.

    Raises:
        WrongSetting: it gives several numbers a pair, so it is no reranker.
    """
    from sentence_transformers import CrossEncoder

    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
    local = choice.name.startswith(("/", "."))
    model = CrossEncoder(
        choice.name,
        device="cpu",
        revision=None if local else choice.revision,
        local_files_only=local,
        max_length=choice.max_tokens,
    )
    if model.num_labels != 1:
        raise WrongSetting("RERANKER_MODEL", f"{choice.name} gives {model.num_labels} numbers a pair, one is needed")
    return CrossEncoderScorer(model, choice.name)
