"""The embedder's second model, where it has one: `POST /rerank`."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MAX_PASSAGES = 64
MAX_CHARACTERS = 16_384


class RerankRequest(BaseModel):
    """A query, and passages to be judged against it. What the model cannot take of a pair is cut, silently: an order
    is asked for, not a vector that stays.
    """

    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]
    passages: Annotated[
        list[Annotated[str, StringConstraints(max_length=MAX_CHARACTERS)]], Field(min_length=1, max_length=MAX_PASSAGES)
    ]


class RerankResponse(BaseModel):
    """`scores[i]` in [0, 1] is how well passage i answers the query; comparable within one answer."""

    model: str
    scores: list[float]
