"""The searchable text of a document: cleaned, without secrets, bounded, the same for the same input."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping

from cairn_shared.plain_text import strip_invisible

MAX_TITLE = 500
MAX_BODY = 100_000
MAX_LISTED = 200
"""Paths, links and the like that are listed in the text of one document; the rest is counted."""


def clean(text: str) -> str:
    """`text` with Unix line ends and nothing invisible; PostgreSQL and UTF-8 take every result."""
    return strip_invisible(text.replace("\r\n", "\n").replace("\r", "\n"))[0]


def clip(text: str, limit: int) -> str:
    """At most `limit` characters, saying how many are missing."""
    if len(text) <= limit:
        return text
    note = f" ... ({len(text) - limit} more characters)"
    return text[: max(0, limit - len(note))] + note


def title(*parts: str | None) -> str:
    """One line from the non-empty `parts`, at most 500 characters."""
    joined = " ".join(part for part in parts if part)
    return clip(" ".join(clean(joined).split()), MAX_TITLE)


def body(prose: str | None, facts: Mapping[str, str | None], lists: Mapping[str, Iterable[str]] | None = None) -> str:
    """The prose, then `Name: value` for every fact that is known, then a list each."""
    blocks = [prose.strip()] if prose and prose.strip() else []
    if known := [f"{name}: {value}" for name, value in facts.items() if value]:
        blocks.append("\n".join(known))
    for name, values in (lists or {}).items():
        listed = list(dict.fromkeys(values))
        if listed:
            more = [f"- ... and {len(listed) - MAX_LISTED} more"] if len(listed) > MAX_LISTED else []
            blocks.append("\n".join([f"{name}:", *(f"- {value}" for value in listed[:MAX_LISTED]), *more]))
    return "\n\n".join(blocks)


def key(text: str) -> str:
    """A part of a natural key: NFC, without invisible characters or spaces around."""
    return unicodedata.normalize("NFC", clean(text)).strip()
