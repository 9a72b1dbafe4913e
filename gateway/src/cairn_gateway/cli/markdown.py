"""Answers on a terminal: the author's Markdown, coloured but not reflowed, so that commands copy whole."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cairn_gateway.cli.screen import clean

if TYPE_CHECKING:
    from rich.text import Text

_FENCE = re.compile(r"^\s*(?:>\s*)*(?:[-*+]\s+|\d+[.)]\s+)*(`{3,}|~{3,})")
_HEADING = re.compile(r"^#{1,6}\s")
_SPANS = re.compile(
    r"(?P<cite>\[[^\[\]\n]+, Step [^\[\]\n]+\])|`(?P<code>[^`\n]+)`|\*\*(?P<strong>[^*\n]+)\*\*",
)
_STYLES = {"cite": "green", "code": "cyan", "strong": "bold"}


def styled(markdown: str) -> Text:
    """`markdown` with headings, code and citations `[Title, Step N]` in colour."""
    from rich.text import Text

    text = Text()
    fence: str | None = None
    for line in clean(markdown).splitlines(keepends=True):
        opened = _FENCE.match(line)
        if fence:
            closes = opened is not None and opened[1].startswith(fence)
            text.append(line, "dim" if closes else "cyan")
            fence = None if closes else fence
        elif opened:
            fence = opened[1]
            text.append(line, "dim")
        elif _HEADING.match(line):
            text.append(line, "bold")
        else:
            _spans(text, line)
    return text


def _spans(text: Text, line: str) -> None:
    end = 0
    for match in _SPANS.finditer(line):
        text.append(line[end : match.start()])
        kind = match.lastgroup or ""
        text.append(match[kind], _STYLES[kind])
        end = match.end()
    text.append(line[end:])
