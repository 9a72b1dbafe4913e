"""Sets of words, written as text."""

from __future__ import annotations


def word_set(text: str) -> frozenset[str]:
    """The words of `text`, which are separated by blanks."""
    return frozenset(text.split())
