"""Lexemes as tsquery text."""

from __future__ import annotations

from collections.abc import Sequence


def quote_lexeme(lexeme: str) -> str:
    """A lexeme as the text of a tsquery that matches just it: nothing in it is an operator."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def all_of(lexemes: Sequence[str]) -> str | None:
    """A tsquery for documents with all of `lexemes`; None for no lexemes."""
    return " & ".join(quote_lexeme(lexeme) for lexeme in lexemes) or None
