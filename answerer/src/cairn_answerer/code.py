"""Code inside Markdown: fences and spans, found in one linear pass (CommonMark §4.5 and §6.1)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass

_FENCE = re.compile(r"[ \t]{0,12}(?:>[ \t]?)?(`{3,}|~{3,})[ \t]*([^\n`]*)$")
_TICKS = re.compile(r"`+")


@dataclass(frozen=True)
class Code:
    """A piece of code: `start` and `end` are offsets with its marks, `text` is what is between them."""

    text: str
    start: int
    end: int
    fenced: bool
    language: str = ""


def find_code(text: str) -> list[Code]:
    """All fences and code spans of `text` in order. A fence that is never closed reaches to the end."""
    found: list[Code] = []
    prose_start = 0
    for fence in _fences(text):
        found.extend(_spans(text, prose_start, fence.start))
        found.append(fence)
        prose_start = fence.end
    found.extend(_spans(text, prose_start, len(text)))
    return found


def without_code(text: str) -> str:
    """`text` with a blank in place of every piece of code."""
    pieces: list[str] = []
    end = 0
    for code in find_code(text):
        pieces.append(text[end : code.start])
        end = code.end
    pieces.append(text[end:])
    return " ".join(pieces)


def _fences(text: str) -> list[Code]:
    found: list[Code] = []
    opened: tuple[str, int, int, str] | None = None
    offset = 0
    for line in text.splitlines(keepends=True):
        match = _FENCE.match(line.rstrip("\r\n"))
        if match and opened is None:
            opened = (match[1], offset, offset + len(line), match[2].strip().lower())
        elif opened and match and not match[2] and match[1][0] == opened[0][0] and len(match[1]) >= len(opened[0]):
            found.append(Code(text[opened[2] : offset], opened[1], offset + len(line), True, opened[3]))
            opened = None
        offset += len(line)
    if opened:
        found.append(Code(text[opened[2] :], opened[1], len(text), True, opened[3]))
    return found


def _spans(text: str, start: int, stop: int) -> list[Code]:
    """Code spans within [start, stop): a run of backticks up to the next run of the same length."""
    runs = [(run.start(), run.end()) for run in _TICKS.finditer(text, start, stop)]
    starts: dict[int, list[int]] = defaultdict(list)
    for begin, end in runs:
        starts[end - begin].append(begin)
    found: list[Code] = []
    position = start
    for begin, end in runs:
        if begin < position:
            continue
        same = starts[end - begin]
        place = bisect_right(same, begin)
        if place < len(same):
            close = same[place]
            position = close + (end - begin)
            found.append(Code(text[end:close].strip(), begin, position, False))
    return found
