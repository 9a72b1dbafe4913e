"""Text made safe to compare and to show: nothing invisible, one form for what looks the same."""

from __future__ import annotations

import re
import unicodedata

from cairn_shared.plain_text import strip_invisible

_VARIATION = re.compile("[\ufe00-\ufe0f\u180b-\u180d\u180f\u17b4\u17b5]")
"""Variation selectors and the like, by which text can be smuggled; they change no letter."""

_TYPOGRAPHY = str.maketrans({
    "“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "‚": "'", "′": "'",
    "‐": "-", "‑": "-", "‒": "-", "−": "-", "\u00a0": " ", "\u202f": " ", "\u2009": " ",
})  # fmt: skip
_SPACE = re.compile(r"\s+")


def visible(text: str) -> str:
    """`text` without characters that a reader cannot see but a model can; line ends are line feeds."""
    if text.isascii() and text.isprintable():
        return text
    return _VARIATION.sub("", strip_invisible(text.replace("\r\n", "\n").replace("\r", "\n"))[0])


def plain(text: str) -> str:
    """`text` with typographic quotes, hyphens and blanks as ASCII has them, compatibility forms folded (NFKC)."""
    return unicodedata.normalize("NFKC", text.translate(_TYPOGRAPHY)).translate(_TYPOGRAPHY)


def squeezed(text: str) -> str:
    """`plain` text on one line with single blanks; lines that end in a backslash are joined. Case is kept."""
    return _SPACE.sub(" ", plain(text).replace("\\\n", " ")).strip()


def folded(text: str) -> str:
    """`squeezed` text regardless of case, for titles and labels."""
    return squeezed(text).casefold()
