"""What steps and chunks are found by beside vectors, made in one way only: to write it and to verify it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cairn_shared.identifiers import identifiers, searchable_text

TSVECTOR: Final = (
    "setweight(to_tsvector('english', r.title), 'A') || setweight(to_tsvector('english', r.section), 'B')"
    " || setweight(to_tsvector('english', r.words), 'D')"
)
"""SQL for a chunk's lexemes, of a row `r` with the columns of `searchable`."""


def searchable(title: str, section: str, text: str) -> dict[str, str]:
    """The columns of which `TSVECTOR` makes a chunk's lexemes: title A, section B, text D."""
    return {
        "title": searchable_text(title),
        "section": searchable_text(section),
        "words": searchable_text(text),
    }


def step_identifiers(section: str, body: str, mentions: Iterable[str] = ()) -> tuple[str, ...]:
    """The identifiers of a step, and what its event mentions beside its text."""
    return tuple(identifiers("\n".join((section, body, *mentions))))
