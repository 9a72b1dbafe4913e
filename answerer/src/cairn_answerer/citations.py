"""References in a model's text: found in one linear pass, resolved only against what this request has shown.

A reference is an opaque id (`[k7mq]`), several of them, or the literal form a reader sees
(`[Runbook title, Step 3]`, `Steps 2-4`, `Step 3b`, also in 【】 and ［］). Brackets inside code are code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cairn_answerer.cleaning import folded
from cairn_answerer.code import find_code
from cairn_answerer.model import Shown

MAX_REFERENCE = 600
"""Longest text between brackets that is looked at: a title of 500 characters and its steps."""

MAX_RANGE = 50
"""Longest range of steps, `Steps 2-51`."""

MAX_BRACKETS = 200
"""Most pairs of brackets looked at in one text."""

_OPEN = "[【［〔"
_MARKS = re.compile(r"[\[\]【】［］〔〕]")
_STEP_PART = re.compile(r"[,:;]?\s*\bsteps?\s+(?=\d)")
_STEP_LIST = re.compile(r"(\d{1,4})([a-z]?)(?:\s*[-\u2013\u2014]\s*(\d{1,4}))?")
_ONLY_STEPS = re.compile(r"[\da-z,\s\u2013\u2014&-]{1,100}")
_ID = re.compile(r"[a-z0-9]{4}")
_ID_SEPARATORS = re.compile(r"[,;\s]+")


@dataclass(frozen=True)
class Extracted:
    """A text without its references, and the references as they were written."""

    text: str
    references: tuple[str, ...]


class Resolver:
    """The passages shown in one request, by id and by title and step."""

    def __init__(self, shown: Iterable[Shown]) -> None:
        self._by_key: dict[str, Shown] = {}
        self._by_title: dict[str, list[Shown]] = {}
        for item in shown:
            self._by_key[item.key] = item
            self._by_title.setdefault(folded(item.passage.title), []).append(item)

    def resolve(self, reference: str) -> tuple[Shown, ...]:
        """What `reference` points at, in the order written; empty when it is nothing that was shown."""
        if len(reference) > MAX_REFERENCE:
            return ()
        text = folded(reference).strip("[]【】［］〔〕 `\"'")
        keys = [key.removeprefix("id=").removeprefix("id:") for key in _ID_SEPARATORS.split(text) if key]
        if keys and all(key in self._by_key for key in keys):
            return tuple(dict.fromkeys(self._by_key[key] for key in keys))
        if marked := [item for item in self._by_key.values() if folded(item.passage.marker).strip("[]") == text]:
            return tuple(marked)
        return self._literal(text)

    def _literal(self, text: str) -> tuple[Shown, ...]:
        # The last `, Step` counts: titles may hold commas, brackets and the word itself.
        places = list(_STEP_PART.finditer(text))
        if not places:
            return ()
        place = places[-1]
        steps = text[place.end() :]
        title = text[: place.start()].strip()
        candidates = [item for item in self._by_title.get(title, ()) if item.passage.is_runbook]
        if not candidates or not _ONLY_STEPS.fullmatch(steps):
            return ()
        found: list[Shown] = []
        for first, letter, last in _STEP_LIST.findall(steps.replace(" and ", ", ")):
            numbers = range(int(first), min(int(last or first), int(first) + MAX_RANGE) + 1)
            for number in numbers:
                found.extend(_with_number(candidates, f"{number}{letter}"))
        return tuple(dict.fromkeys(found))

    def is_reference(self, text: str) -> bool:
        """`text` between brackets is meant as a reference, whether or not it leads anywhere."""
        plain = folded(text)
        if self.resolve(text):
            return True
        if any(_is_random(part) for part in _ID_SEPARATORS.split(plain)):
            return True
        return _STEP_PART.search(plain) is not None


def _is_random(word: str) -> bool:
    """Looks like an id of ours: four characters, a digit and a letter among them, no vowel."""
    return (
        _ID.fullmatch(word) is not None
        and any(char.isdigit() for char in word)
        and any(char.isalpha() for char in word)
        and not set(word) & set("aeiou")
    )


def _with_number(candidates: Sequence[Shown], wanted: str) -> list[Shown]:
    by_number = [item for item in candidates if str(item.passage.number) == wanted]
    if by_number:
        return by_number
    by_label = [item for item in candidates if folded(item.passage.label) == wanted]
    return by_label if len(by_label) == 1 else []


def extract(text: str, resolver: Resolver) -> Extracted:
    """Take the references out of `text`; other brackets (links, options of a command) stay."""
    spans = [span for span in _bracketed(text) if resolver.is_reference(text[span[0] + 1 : span[1] - 1])]
    pieces: list[str] = []
    references: list[str] = []
    end = 0
    for start, stop in sorted(spans):
        if start < end:
            continue  # inside the one before: a bracket in a title
        pieces.append(text[end:start].rstrip(" \t"))
        references.append(text[start + 1 : stop - 1])
        end = stop
    pieces.append(text[end:])
    return Extracted(text="".join(pieces).strip(), references=tuple(dict.fromkeys(references)))


_SENTENCE_END = re.compile(r"[ \t]{0,3}[.!?;]?[ \t]{1,8}(?=[A-Z0-9`*\"'(])")


def sentences(text: str, resolver: Resolver) -> list[str]:
    """`text` cut after each reference that ends a sentence, so that every part keeps its own references."""
    parts: list[str] = []
    start = 0
    for first, stop in sorted(_bracketed(text)):
        end = _SENTENCE_END.match(text, stop)
        if end and first >= start and resolver.is_reference(text[first + 1 : stop - 1]):
            parts.append(text[start : end.end()].strip())
            start = end.end()
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def _bracketed(text: str) -> list[tuple[int, int]]:
    """Pairs of brackets outside code, as (start, end); links `[text](url)` are left out."""
    code = [(piece.start, piece.end) for piece in find_code(text)]
    spans: list[tuple[int, int]] = []
    stack: list[int] = []
    for mark in _MARKS.finditer(text):
        while code and code[0][1] <= mark.start():
            code.pop(0)
        if code and code[0][0] <= mark.start():
            continue
        if mark[0] in _OPEN:
            stack.append(mark.start())
        elif stack:
            start = stack.pop()
            if mark.end() - start <= MAX_REFERENCE and text[mark.end() : mark.end() + 1] != "(":
                spans.append((start, mark.end()))
            if len(spans) >= MAX_BRACKETS:
                break
    return spans


def supported(references: Iterable[str], resolver: Resolver) -> tuple[tuple[Shown, ...], tuple[str, ...]]:
    """(what the references lead to, those that lead nowhere)."""
    found: dict[str, Shown] = {}
    unknown: list[str] = []
    for reference in references:
        items = resolver.resolve(reference)
        if not items:
            unknown.append(reference)
        for item in items:
            found[item.key] = item
    return tuple(found.values()), tuple(unknown)
