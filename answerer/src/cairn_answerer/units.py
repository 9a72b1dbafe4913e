"""A step as numbered units: sentences, list items, commands and fences, table rows. Pure; any language.

The model chooses among units and code shows them, so two things must hold: together they are the step, character by
character, and each knows what it cannot stand without (`needs`): the sentence that introduces a fence, the item above
a nested one, the heading above a paragraph, the rest of a table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from markdown_it.token import Token

from cairn_answerer.sentences import sentence_ends
from cairn_shared.runbooks.outline import block_parser

Kind = Literal["sentence", "item", "fence", "row", "quote", "heading", "other"]

_BOLD = re.compile(r"(\*\*|__)(?!\s)(?:(?!\1).){1,200}\1:?")
_BOLD_LEVEL = 7
_LINE_END = re.compile(r"\r\n?|\n")
_PARSER = block_parser()


@dataclass(frozen=True)
class Unit:
    """A piece of a step, `[start, end)` of its characters, white space behind it included.

    `block` is the paragraph, item, fence or table that it is a part of, counted from 0. `needs` are the places of the
    units (from 0) that have to be shown with it.
    """

    kind: Kind
    start: int
    end: int
    block: int
    needs: tuple[int, ...] = ()


@lru_cache(maxsize=2048)
def units_of(text: str) -> tuple[Unit, ...]:
    """The units of a step's Markdown, in order; their texts make it up. Cached: the same few steps come again."""
    pieces = _Reader(text).pieces()
    if not pieces:
        return ()
    starts = [0, *(piece.start for piece in pieces[1:]), len(text)]
    return tuple(
        Unit(piece.kind, start, end, piece.block, tuple(sorted(piece.needs - {place})))
        for place, (piece, start, end) in enumerate(zip(pieces, starts, starts[1:], strict=False))
    )


def with_needs(units: Sequence[Unit], chosen: Collection[int]) -> set[int]:
    """`chosen` (places) and all that they cannot stand without."""
    found: set[int] = set()
    waiting = list(chosen)
    while waiting:
        place = waiting.pop()
        if place not in found:
            found.add(place)
            waiting.extend(units[place].needs)
    return found


def runs(text: str, units: Sequence[Unit], chosen: Collection[int]) -> Iterator[str]:
    """The chosen units' text, neighbours together; indentation that a whole run shares with its first line goes."""
    places = sorted(chosen)
    start = 0
    for at, place in enumerate(places):
        if at + 1 == len(places) or places[at + 1] != place + 1:
            yield _dedented(text[units[places[start]].start : units[place].end])
            start = at + 1


def _dedented(text: str) -> str:
    lines = text.strip("\n").rstrip().split("\n")
    width = len(lines[0]) - len(lines[0].lstrip(" "))
    return "\n".join([lines[0][width:], *(line[min(width, len(line) - len(line.lstrip(" "))) :] for line in lines[1:])])


@dataclass
class _Piece:
    kind: Kind
    start: int
    block: int
    needs: set[int]


@dataclass
class _Container:
    """The document or a list item while its blocks are read."""

    parent: tuple[int, ...] = ()
    """What all in it needs: the item's first words, and what those need."""
    lead: int | None = None
    """The last unit of the paragraph right before the next block; a fence after a fence keeps it."""
    shown: int | None = None
    """The fence right before the next block: what follows speaks of it ("run it as root", "expect 1")."""
    spoken_of: int | None = None
    """The fence that `lead` speaks of."""
    fresh: bool = True
    """It is an item of which nothing was read yet."""


class _Reader:
    """Walks the blocks of one step."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = [0, *(end.end() for end in _LINE_END.finditer(text))]  # as the parser counts them
        self._pieces: list[_Piece] = []
        self._blocks = 0
        self._read = 0  # the first line not covered yet
        self._headings: list[tuple[int, int]] = []

    def pieces(self) -> list[_Piece]:
        """Beginnings of units in order."""
        stack = [_Container(fresh=False)]
        tokens = _PARSER.parse(self._text)
        skip = -1
        for at, token in enumerate(tokens):
            if at <= skip:
                continue
            if token.type == "list_item_open":
                here = stack[-1]
                above = here.parent if here.lead is None else (*here.parent, here.lead)
                stack.append(_Container(parent=above))
            elif token.type == "list_item_close":
                stack.pop()
                stack[-1].fresh = False
            elif token.type in ("bullet_list_close", "ordered_list_close"):
                stack[-1].lead = stack[-1].shown = None
            elif token.type == "blockquote_open":
                skip = _end_of(tokens, at)
                self._block(token, "quote", stack[-1])
            elif token.type == "table_open":
                skip = _end_of(tokens, at)
                self._table(token, tokens[at:skip], stack[-1])
            elif token.type == "heading_open":
                self._heading(token, stack[-1])
            elif token.type == "paragraph_open":
                self._paragraph(token, stack[-1], in_item=len(stack) > 1)
            elif token.type in ("fence", "code_block", "html_block", "hr"):
                self._block(token, "fence" if token.type in ("fence", "code_block") else "other", stack[-1])
        self._uncovered(len(self._lines))
        return self._pieces

    def _add(self, kind: Kind, start: int, needs: Collection[int]) -> int:
        self._pieces.append(_Piece(kind, start, self._blocks, {*needs, *(place for _, place in self._headings)}))
        return len(self._pieces) - 1

    def _enter(self, token: Token) -> tuple[int, int]:
        """The lines of a block; what stands before it and belongs to no block becomes a unit of its own."""
        first, last = token.map or [self._read, self._read]
        self._uncovered(first)
        self._read = max(self._read, last)
        self._blocks += 1
        return first, last

    def _uncovered(self, until: int) -> None:
        """Lines that the parser leaves out: definitions of links. Blank ones end the unit before them."""
        for line in range(self._read, until):
            if self._line(line).strip():
                self._blocks += 1
                self._add("other", self._lines[line], ())
                break
        self._read = max(self._read, until)

    def _line(self, number: int) -> str:
        end = self._lines[number + 1] if number + 1 < len(self._lines) else len(self._text)
        return self._text[self._lines[number] : end]

    def _heading(self, token: Token, here: _Container) -> None:
        level = int(token.tag[1:])
        self._headings = [(outer, place) for outer, place in self._headings if outer < level]
        first, _ = self._enter(token)
        place = self._add("heading", self._lines[first], here.parent)
        if len(here.parent) == 0:
            self._headings.append((level, place))
        here.lead = here.shown = None
        here.fresh = False

    def _paragraph(self, token: Token, here: _Container, *, in_item: bool) -> None:
        first, last = self._enter(token)
        start = self._lines[first]
        end = self._lines[last] if last < len(self._lines) else len(self._text)
        needs = here.parent if here.shown is None else (*here.parent, here.shown)
        if in_item:
            place = self._add("item", start, needs)
            if here.fresh:
                here.parent = (*here.parent, place)
        else:
            place = self._sentences(start, end, needs, here.parent)
        here.lead, here.fresh = place, False
        here.spoken_of, here.shown = here.shown, None

    def _sentences(self, start: int, end: int, needs: tuple[int, ...], above: tuple[int, ...]) -> int:
        """The units of a paragraph, and the last of them. Words in bold before others are a heading that runs in; in
        bold alone they are one for what follows.
        """
        text = self._text[start:end]
        ends = list(sentence_ends(text))
        if not ends and _BOLD.fullmatch(text.strip()):
            self._headings = [(level, place) for level, place in self._headings if level < _BOLD_LEVEL]
            place = self._add("heading", start, above)
            self._headings += [] if above else [(_BOLD_LEVEL, place)]
            return place
        place = self._add("sentence", start, needs)
        run_in = (place,) if ends and _BOLD.fullmatch(text[: ends[0]].strip()) else ()
        for offset in ends:
            place = self._add("sentence", start + offset, (*needs, *run_in))
        return place

    def _block(self, token: Token, kind: Kind, here: _Container) -> None:
        first, _ = self._enter(token)
        place = self._add(kind, self._lines[first], here.parent if here.lead is None else (*here.parent, here.lead))
        self._introduced(place, kind, here)

    def _table(self, token: Token, inside: Sequence[Token], here: _Container) -> None:
        first, last = self._enter(token)
        needs = here.parent if here.lead is None else (*here.parent, here.lead)
        rows = [row.map[0] for row in inside if row.type == "tr_open" and row.map and row.map[0] > first]
        places = [self._add("row", self._lines[line], needs) for line in (first, *rows) if line < last]
        for place in places:
            self._pieces[place].needs.update(places)
        self._introduced(places[0], "row", here)

    def _introduced(self, place: int, kind: Kind, here: _Container) -> None:
        """A sentence that ends before a fence and the fence say one thing: neither is shown alone. It then speaks of
        this fence, not of one before it.
        """
        if here.lead is not None and kind == "fence":
            lead = self._pieces[here.lead]
            lead.needs -= {here.spoken_of}
            lead.needs.add(place)
            here.spoken_of = None
        if here.fresh:
            here.parent = (*here.parent, place)
        here.fresh = False
        here.shown = place if kind == "fence" else None
        if kind != "fence":
            here.lead = None


def _end_of(tokens: Sequence[Token], opening: int) -> int:
    level = tokens[opening].level
    return next(at for at in range(opening + 1, len(tokens)) if tokens[at].level == level and tokens[at].nesting < 0)
