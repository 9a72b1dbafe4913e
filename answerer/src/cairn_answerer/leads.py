"""Leads: the model's own words before what it chose. Never verified, so they may say little that could be acted on.

A lead is one short line. A word in it that could be typed, measured or looked up (a command, flag, path, number,
identifier, name) must stand in the units that it introduces; else the lead is left out, alone. So is one that says
again what a step says: the step says it better, and a lie about a step is made of the step's words.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property

from cairn_answerer.code import without_code
from cairn_answerer.safety import KNOWN_PROGRAMS

MAX_LEAD = 200
MAX_RESTATED = 0.6
"""Share of a lead's words, beside what could be typed, that one step may have. Of 43 subtle lies about public and demo
runbooks 32 hold nothing that could be typed; their share is .85 and more, that of 53 such true sentences .64 and more.
"""

_SPAN = re.compile(r"`([^`]+)`")
_WORD = re.compile(r"\w+")
_UNSPACED = "\u2e80"
_ACTIVE = re.compile(r"!?\[[^\]]*\]\(|<[/!?A-Za-z]|[a-z][a-z0-9+.-]*://|www\.", re.IGNORECASE)
_EDGE = "\"'“”‘’„«»()[]{}*_`,;:!?…。、，：；！？「」"
_PLAIN = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


@dataclass(frozen=True)
class Known:
    """What the request is about: the question, and the texts that the model was shown."""

    question: str = ""
    shown: tuple[str, ...] = ()

    @cached_property
    def prose(self) -> str:
        """All of it but code. What stands here in small letters is a word: no name where it begins a sentence with a
        capital, and no program (`more`, `at`) where it is called as one.
        """
        return "\n".join([self.question, *map(without_code, self.shown)])

    @cached_property
    def words(self) -> tuple[frozenset[str], ...]:
        """The words of each text shown."""
        return tuple(frozenset(_words(text)) for text in self.shown)


def admitted(lead: str, introduced: str, known: Known) -> str:
    """The lead, which introduces the text `introduced`, as it may be shown; or nothing."""
    text = " ".join(lead.split())
    if not text or len(text) > MAX_LEAD or not text.isprintable() or unicodedata.normalize("NFKC", text) != text:
        return ""
    spans = _SPAN.findall(text)
    telling, said = _divided(_SPAN.sub(" ", text), known.prose)
    if _ACTIVE.search(text) or "``" in text or text.count("`") % 2:
        return ""
    if any(not _stands_in(word, introduced) for word in (*spans, *telling)):
        return ""
    words = _words(" ".join(said))
    restated = any(sum(word in step for word in words) >= MAX_RESTATED * len(words) for step in known.words)
    return "" if restated or not words else text


def _words(text: str) -> list[str]:
    """Folded; pairs of letters where a script has no space between words."""
    found: list[str] = []
    for word in _WORD.findall(text.casefold()):
        pairs = len(word) > 1 and word[0] >= _UNSPACED
        found.extend([word[at : at + 2] for at in range(len(word) - 1)] if pairs else [word])
    return found


def _divided(text: str, prose: str) -> tuple[list[str], list[str]]:
    """(what could be typed, measured or looked up, the other words)."""
    telling: list[str] = []
    said: list[str] = []
    beginning = True
    for raw in text.split():
        word = raw.strip(_EDGE).removesuffix(".") if not raw.startswith("-") else raw.rstrip(_EDGE + ".")
        if not word:
            continue
        plain = _PLAIN.fullmatch(word) is not None
        letters = {unicodedata.name(char, "").startswith("LATIN") for char in word if char.isalpha()}
        inner = any(char.isupper() for char in word[1:])
        name = word[0].isupper() and (not beginning or not _stands_in(word.lower(), prose))
        program = word in KNOWN_PROGRAMS and not _stands_in(word, prose)
        (telling if not plain or len(letters) > 1 or inner or name or program else said).append(word)
        beginning = raw.rstrip("\"'”’)*_").endswith((".", "!", "?", ":"))
    return telling, said


def _stands_in(word: str, text: str) -> bool:
    """Whole: `/data` is not in `/data/x`, nor `5` in `15` or `0.5`."""
    bounded = rf"(?<![\w/.@%+~$-]){re.escape(word)}(?!\w|[/@%+~$-]|\.\w)"
    return re.search(bounded, text) is not None
