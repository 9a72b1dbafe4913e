"""Where sentences end, in any script: Unicode's rules (UAX #29, SB6 to SB11) outside code, links and brackets.

A letter case decides after a full stop, so `e.g. the` and `v1.2` do not end one and `z. B.` before a noun does: a
sentence more is harmless, as what belongs together is shown together. `sentencex` and `pysbd` were tried: the first
panics on U+2028, the second is not kept any more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cairn_answerer.code import find_code

_STOPS = "!?‼⁇⁈⁉؟۔।॥။።፧፨᠃᠉。！？．｡"
_WITHOUT_SPACE = "。！？｡．"
_CLOSING = "\"'”’»›」』）】〉》)\\]*_"
_END = re.compile(rf"(?:[{_STOPS}]|\.(?!\.)|…)[{_CLOSING}]{{0,5}}(?P<space>\s{{0,20}})")
_BRACKETS = re.compile(r"\([^()]{0,500}\)|\[[^\[\]]{0,500}\](?:\([^()\s]{0,2000}\))?|https?://\S{0,2000}[^\s.,;:!?)]")


def sentence_ends(text: str) -> Iterator[int]:
    """Where in a paragraph the second sentence begins, the third, and so on."""
    closed = _closed(text)
    for end in _END.finditer(text):
        at = end.end()
        while closed and closed[0][1] <= end.start():
            closed.pop(0)
        if at >= len(text) or (closed and closed[0][0] <= end.start()):
            continue
        stop = end[0][0]
        if not end["space"] and stop not in _WITHOUT_SPACE:
            continue
        if stop in ".…" and text[at].islower():
            continue
        yield at


def _closed(text: str) -> list[tuple[int, int]]:
    """Stretches in which no sentence ends: code, links, brackets. In order, none inside another."""
    spans = sorted(
        [*((code.start, code.end) for code in find_code(text)), *(m.span() for m in _BRACKETS.finditer(text))]
    )
    found: list[tuple[int, int]] = []
    for start, end in spans:
        if not found or start >= found[-1][1]:
            found.append((start, end))
        elif end > found[-1][1]:
            found[-1] = (found[-1][0], end)
    return found
