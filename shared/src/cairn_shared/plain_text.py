"""Characters that a reader cannot see, taken out of text that people and models will read."""

from __future__ import annotations

import re

# Terminal colours and cursor movements (ECMA-48 control sequences), as pasted from consoles.
_ANSI = re.compile(r"\x1b\[[0-9;:?]{0,32}[ -/]{0,4}[@-~]")
_LINE_SEPARATORS = re.compile("[\u2028\u2029\x0b\x0c\x85]")
# Control, zero-width, bidirectional, filler, tag, private-use and surrogate code points, soft hyphen, noncharacters.
# They hide words from search and from readers, or instructions for models from people.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef"
    "\ufffe\uffff\U000e0000-\U0010ffff]"
)


def strip_invisible(text: str) -> tuple[str, int]:
    """`text` without invisible characters, and how many were removed. Line feeds, returns and tabs stay.

    Other line separators become a space, so that lines keep the numbers that editors and git show.
    """
    text, sequences = _ANSI.subn("", text)
    text, separators = _LINE_SEPARATORS.subn(" ", text)
    text, characters = _INVISIBLE.subn("", text)
    return text, sequences + separators + characters
