"""Field types that every store behind an API can hold; what does not fit is refused at the edge, by its name."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, Field, StringConstraints

MAX_TEXT = 32_768


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("NUL characters cannot be kept: leave them out")
    return text


# Other bounds come before it, for it ends what pydantic itself checks. With a bound pydantic reads the string, and so
# refuses halves of surrogate pairs as well.
WITHOUT_NUL = AfterValidator(_without_nul)
Text = Annotated[str, StringConstraints(max_length=MAX_TEXT), WITHOUT_NUL]
"""A string without NUL (PostgreSQL holds none) and without lone surrogates (UTF-8 has none)."""

Moment = Annotated[
    AwareDatetime,
    Field(ge=datetime.fromisoformat("1990-01-01T00:00:00Z"), lt=datetime.fromisoformat("2200-01-01T00:00:00Z")),
]
"""A time that every store can hold."""
