"""A model's output to draft claims: JSON as it was asked for, JSON in disguise, or cited prose.

`ClaimReader` reads while the model writes and hands out each claim as soon as its object is complete. Both it and
`parse` take time linear in the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from cairn_answerer.citations import Resolver, extract, sentences
from cairn_answerer.cleaning import folded, visible
from cairn_answerer.errors import BadOutput
from cairn_answerer.model import Draft, DraftClaim
from cairn_shared.api.ask import REFUSAL

MAX_OUTPUT = 48_000
"""Characters of output that are read; a model that writes more has lost its way."""

MAX_CLAIMS = 30
MAX_CLAIM = 2_000
_MAX_DEPTH = 6
_TEXT_KEYS = ("text", "claim", "statement")
_CITE_KEYS = ("cites", "citations", "citation", "sources", "ids", "refs", "cite")
_ANSWERABLE = re.compile(r'"answerable"\s*:\s*(true|false)')
_ANY_ANSWERABLE = re.compile(r'"answerable"\s*:')
_NO_CLAIMS = re.compile(r'"claims"\s*:\s*\[\s*\]')
_STRUCTURE = re.compile(r'[{}"]|\\.')
_BULLET = re.compile(r"^\s{0,8}(?:[-*+•]|\d{1,2}[.)])\s+")
_REFUSAL = folded(REFUSAL)


class ClaimReader:
    """Finds complete claim objects in text that arrives in pieces."""

    def __init__(self) -> None:
        self._text = ""
        self._position = 0
        self._open: list[int] = []
        self._in_string = False
        self.answerable: bool | None = None
        self.claims: list[DraftClaim] = []

    @property
    def unfinished(self) -> bool:
        """The JSON breaks off."""
        return bool(self._open)

    def feed(self, piece: str) -> list[DraftClaim]:
        """The claims that `piece` completes."""
        self._text += piece
        if self.answerable is None and len(self._text) < MAX_OUTPUT:
            self._look_for_answerable()
        before = len(self.claims)
        for mark in _STRUCTURE.finditer(self._text, self._position):
            symbol = mark[0]
            if len(symbol) == 2:
                pass  # an escaped character
            elif symbol == '"':
                # Quotes in prose before the JSON mean nothing.
                self._in_string = not self._in_string and bool(self._open)
            elif not self._in_string:
                self._brace(symbol, mark.start())
            self._position = mark.end()
        # A backslash at the very end waits for its other half.
        tail = self._text[self._position :]
        self._position = len(self._text) - (1 if tail.endswith("\\") else 0)
        return self.claims[before:]

    def _look_for_answerable(self) -> None:
        window = self._text[max(0, self._position - 40) :]
        if match := _ANSWERABLE.search(window):
            self.answerable = match[1] == "true"

    def _brace(self, symbol: str, place: int) -> None:
        if symbol == "{":
            self._open.append(place)
        elif self._open:
            start = self._open.pop()
            if len(self._open) < _MAX_DEPTH and place - start <= 2 * MAX_CLAIM + 1000 and len(self.claims) < MAX_CLAIMS:
                claim = _claim(_loads(self._text[start : place + 1]))
                if claim:
                    self.claims.append(claim)


def parse(text: str, resolver: Resolver) -> Draft:
    """All claims of a finished output.

    Raises:
        BadOutput: nothing in it is a claim with a reference, and it is no refusal.
    """
    text = visible(text[:MAX_OUTPUT])
    reader = ClaimReader()
    reader.feed(text)
    if reader.claims or reader.answerable is False:
        return Draft(answerable=reader.answerable, claims=tuple(reader.claims))
    if _REFUSAL in folded(text[:2000]):
        return Draft(answerable=False, claims=())
    # Only a list that is there and empty says that there is nothing to say; all else is a model that failed, and the
    # engineer is better served with the steps than with a refusal.
    undecided = reader.answerable is None and _ANY_ANSWERABLE.search(text)
    if not reader.unfinished and not undecided and _NO_CLAIMS.search(text):
        return Draft(answerable=True, claims=())
    is_json = isinstance(_loads(text), dict | list)  # whose brackets are no citations
    claims = () if is_json else tuple(_cited_lines(text, resolver))
    if not claims:
        raise BadOutput
    return Draft(answerable=None, claims=claims)


def _loads(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _claim(value: Any) -> DraftClaim | None:
    if not isinstance(value, dict):
        return None
    text = next((value[key] for key in _TEXT_KEYS if isinstance(value.get(key), str)), None)
    if text is None or not text.strip() or len(text) > MAX_CLAIM:
        return None
    cites: Any = next((value[key] for key in _CITE_KEYS if key in value), [])
    return DraftClaim(text=visible(text).strip(), references=tuple(_references(cites))[:MAX_CLAIMS])


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, dict):
        yield from (item for item in value.values() if isinstance(item, str))
    elif isinstance(value, list):
        for item in value[:MAX_CLAIMS]:
            if not isinstance(item, list):
                yield from _references(item)


def _cited_lines(text: str, resolver: Resolver) -> Iterator[DraftClaim]:
    """Prose: each cited sentence is a claim, or the line where sentences share a reference; others are passed over."""
    count = 0
    for block in _blocks(text):
        if len(block) > 2 * MAX_CLAIM:
            continue
        for sentence in sentences(block, resolver):
            extracted = extract(sentence, resolver)
            if extracted.references and 1 < len(extracted.text) <= MAX_CLAIM:
                yield DraftClaim(text=extracted.text, references=extracted.references)
                count += 1
                if count >= MAX_CLAIMS:
                    return


def _blocks(text: str) -> Iterator[str]:
    """Lines, with a fence that follows a line kept together with it."""
    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        fence = line.lstrip().startswith(("```", "~~~"))
        if fence or fenced:
            lines.append(line)
            fenced = fenced != fence
            continue
        if line.strip():
            if lines:
                yield "\n".join(lines)
            lines = [_BULLET.sub("", line).strip()]
    if lines:
        yield "\n".join(lines)
