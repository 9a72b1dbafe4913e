"""Leads: the model's own words before what it chose. Never verified, so they may say little that could be acted on.

A lead is one short line. A word in it that could be typed, measured or looked up (a command, flag, path, number,
identifier, name) must stand in the units that it introduces; else the lead is left out, alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from cairn_answerer.safety import KNOWN_PROGRAMS

MAX_LEAD = 200
_ACTIVE = re.compile(r"!?\[[^\]]*\]\(|<[/!?A-Za-z]|[a-z][a-z0-9+.-]*://|www\.", re.IGNORECASE)
_EDGE = "\"'“”‘’„«»()[]{}*_`,;:!?…。、，：；！？「」"
_PLAIN = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


def admitted(lead: str, introduced: str, known: str) -> str:
    """The lead as it may be shown, or nothing.

    Args:
        lead: the model's words.
        introduced: the text that they introduce.
        known: all text that the request has shown or asked: a capital at the beginning of a sentence is no name
            where the word stands there in small letters.
    """
    text = " ".join(lead.split())
    if not text or len(text) > MAX_LEAD or not text.isprintable() or unicodedata.normalize("NFKC", text) != text:
        return ""
    if _ACTIVE.search(text) or any(not _stands_in(word, introduced) for word in _telling(text, known)):
        return ""
    return text


def _telling(text: str, known: str) -> Iterator[str]:
    """What of a lead could be typed, measured or looked up."""
    yield from re.findall(r"`([^`]*)`", text)
    beginning = True
    for raw in text.split():
        word = raw.strip(_EDGE).removesuffix(".") if not raw.startswith("-") else raw.rstrip(_EDGE + ".")
        if not word:
            continue
        plain = _PLAIN.fullmatch(word) is not None
        letters = {unicodedata.name(char, "").startswith("LATIN") for char in word if char.isalpha()}
        capital = word[0].isupper()
        inner = any(char.isupper() for char in word[1:])
        name = capital and (not beginning or not _stands_in(word.lower(), known))
        if not plain or len(letters) > 1 or inner or name or word in KNOWN_PROGRAMS:
            yield word
        beginning = raw.rstrip("\"'”’)*_").endswith((".", "!", "?", ":"))


def _stands_in(word: str, text: str) -> bool:
    """Whole: `/data` is not in `/data/x`, nor `5` in `15` or `0.5`."""
    bounded = rf"(?<![\w/.@%+~$-]){re.escape(word)}(?!\w|[/@%+~$-]|\.\w)"
    return re.search(bounded, text) is not None
