"""Steps to windows: what is embedded, measured in the embedding model's own tokens.

The step is the parent, cited and shown whole; its windows are children, found by vector and by word. A window
never spans two steps, and a tiny step stays a window of its own: its prefix gives it context, and merging it
with a neighbour would make one vector answer for two citations.

Windows end where sentences, lines or blocks end. A fence cut between lines repeats its opening line, a table cut
between rows repeats its header, so every window reads as Markdown by itself.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from markdown_it import MarkdownIt

from cairn_shared.errors import PermanentError
from cairn_shared.identifiers import split_camel_case

CountTokens = Callable[[str], int]
"""Tokens of a text for the embedding model, special tokens counted or not; never truncated."""


@dataclass(frozen=True)
class ChunkPolicy:
    """How steps are cut.

    Attributes:
        max_tokens: most tokens of a window's `embed_text`, prefix included.
        prefix_tokens: most tokens of the `title > section` prefix; 0 leaves it out (for ablations).
        split_names: CamelCase names in the prefix as words, which embedding models know.
        overlap_sentences: sentences of the window before that open the next one; only prose overlaps.
    """

    max_tokens: int = 220
    prefix_tokens: int = 24
    split_names: bool = True
    overlap_sentences: int = 1

    def __post_init__(self) -> None:
        if self.prefix_tokens < 0 or self.overlap_sentences < 0 or self.max_tokens < 2 * self.prefix_tokens + 16:
            raise ValueError("max_tokens must leave room beside the prefix: at least 2 * prefix_tokens + 16")


DEFAULT_POLICY = ChunkPolicy()
"""220 of the 256 tokens of MiniLM: room for special tokens and for other tokenizers' differences."""


@dataclass(frozen=True)
class Window:
    """A part of one step. `text` is Markdown; `embed_text` is what the vector is of, `n_tokens` its size."""

    text: str
    embed_text: str
    n_tokens: int


def chunk_step(
    title: str, section: str, body: str, count_tokens: CountTokens, policy: ChunkPolicy = DEFAULT_POLICY
) -> list[Window]:
    """The windows of one step in order; none when `body` is blank.

    Args:
        title: the document's.
        section: headings above the step, joined by ` > `.
        body: the step's Markdown, or an event's text.
        count_tokens: the embedding model's counter; its cost is what bounds this function, and every part of
            `body` passes through it a small constant number of times.
        policy: how to cut.

    Raises:
        PermanentError: the tokenizer gives one character more tokens than a window may have.
    """
    body = _NEWLINE.sub("\n", body).replace("\0", "\ufffd").strip("\n")
    if not body.strip():
        return []
    if policy.split_names:
        title, section = split_camel_case(title), split_camel_case(section)
    prefix = make_prefix(title, section, count_tokens, policy.prefix_tokens)
    whole = (
        _window(prefix, body.rstrip(), count_tokens) if len(body) <= _CHARACTERS_PER_TOKEN * policy.max_tokens else None
    )
    if whole and whole.n_tokens <= policy.max_tokens:
        return [whole]
    return _Packer(prefix, count_tokens, policy).pack(body)


def make_prefix(title: str, section: str, count_tokens: CountTokens, budget: int) -> str:
    """`title > section` in at most `budget` tokens: the outer headings are left out first, then words of the title."""
    base = count_tokens("")
    title = " ".join(title.split()[:64])
    headings = [part for part in section.split(" > ") if part.strip() and part.strip().casefold() != title.casefold()]
    for parts in ([title, *headings], [title, *headings[-1:]], [title]):
        prefix = " > ".join(part for part in parts if part)
        if count_tokens(prefix) - base <= budget:
            return prefix
    kept: list[str] = []
    for word in title.split():
        budget -= count_tokens(word) - base
        if budget < 0:
            break
        kept.append(word)
    return " ".join(kept)


def _window(prefix: str, text: str, count_tokens: CountTokens) -> Window:
    embed_text = f"{prefix}\n{text}" if prefix else text
    return Window(text, embed_text, count_tokens(embed_text))


@dataclass(frozen=True)
class _Frame:
    """What a cut fence or table repeats around its lines. `tokens` is the price of doing so."""

    opening: str
    closing: str
    tokens: int


@dataclass(frozen=True)
class _Unit:
    """A sentence or line with the white space after it; cut only when it alone is over the limit."""

    text: str
    tokens: int
    frame: _Frame | None = None
    is_whole: bool = True


@dataclass(frozen=True)
class _Block:
    """A paragraph, list, fence or table: kept together where it fits."""

    units: list[_Unit]
    frame: _Frame | None = None
    tokens: int = field(init=False)

    def __post_init__(self) -> None:
        total = sum(unit.tokens for unit in self.units) + (self.frame.tokens if self.frame else 0)
        object.__setattr__(self, "tokens", total)


_CHARACTERS_PER_TOKEN = 32
"""A token stands for at most so many characters here: tokenizers take a blob of any length for one unknown word."""

_BLOCKS_ONLY = MarkdownIt("commonmark").enable("table").disable("inline")
_NEWLINE = re.compile(r"\r\n?")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[ \t]+(?=\S)")
_WORDS = re.compile(r"\s*\S+\s*")
_FENCE_OPENING = re.compile(r"([\s>]*)(?:(?:[-*+]|\d{1,9}[.)])(\s+))?(`{3,}|~{3,})")


class _Splitter:
    """A step's Markdown as blocks of counted units."""

    def __init__(self, count_tokens: CountTokens, header_budget: int) -> None:
        self._count = count_tokens
        self._base = count_tokens("")
        self._header_budget = header_budget

    def blocks(self, body: str) -> list[_Block]:
        lines = _LINES.findall(body)
        blocks: list[_Block] = []
        at = 0
        for token in _BLOCKS_ONLY.parse(body):
            if token.type not in ("fence", "table_open") or not token.map:
                continue
            start, end = max(token.map[0], at), min(token.map[1], len(lines))
            if start < end:
                blocks += self._prose(lines[at:start])
                blocks.append(self._framed(lines[start:end], is_fence=token.type == "fence"))
                at = end
        return blocks + self._prose(lines[at:])

    def _prose(self, lines: list[str]) -> list[_Block]:
        """One block for each run of lines up to a blank one."""
        blocks: list[_Block] = []
        pieces: list[str] = []
        for line in lines:
            if line.strip():
                pieces += _SENTENCE_END.sub(lambda match: match[0] + "\0", line).split("\0")
            elif pieces:
                pieces[-1] += line
                blocks.append(_Block(self._units(pieces)))
                pieces = []
        if pieces:
            blocks.append(_Block(self._units(pieces)))
        return blocks

    def _framed(self, lines: list[str], *, is_fence: bool) -> _Block:
        """A fence or table. A header too dear to repeat is left where it stands, the rest goes without."""
        header, closing, inner = "".join(lines[:1] if is_fence else lines[:2]), "", lines[1 if is_fence else 2 :]
        if is_fence and (opening := _FENCE_OPENING.match(header)):
            closing = f"{opening[1]}{opening[2] or ''}{opening[3]}\n"
            if inner and inner[-1].strip(" \t>\n").strip(opening[3][0]) == "" and opening[3] in inner[-1]:
                closing, inner = inner[-1].rstrip() + "\n", inner[:-1]
        frame = _Frame(header, closing, self._count(header) + self._count(closing) - 2 * self._base)
        if not inner or frame.tokens > self._header_budget:
            return _Block(self._units(lines))
        return _Block(self._units(inner, frame), frame)

    def _units(self, pieces: Sequence[str], frame: _Frame | None = None) -> list[_Unit]:
        return [
            _Unit(piece, max(self._count(piece) - self._base, len(piece) // _CHARACTERS_PER_TOKEN), frame)
            for piece in pieces
            if piece
        ]

    def cut(self, unit: _Unit) -> list[_Unit]:
        """The words of `unit`, or the halves of a single word."""
        words = _WORDS.findall(unit.text)
        if len(words) < 2:
            middle = len(unit.text) // 2
            words = [unit.text[:middle], unit.text[middle:]]
        return [replace(piece, is_whole=False) for piece in self._units(words, unit.frame)]


class _Packer:
    """Fills windows with units, in order."""

    def __init__(self, prefix: str, count_tokens: CountTokens, policy: ChunkPolicy) -> None:
        self._prefix = prefix
        self._count = count_tokens
        self._policy = policy
        self._room = policy.max_tokens - count_tokens(prefix)
        self._splitter = _Splitter(count_tokens, header_budget=self._room // 3)
        self._current: list[_Unit] = []
        self._used = 0
        self._new = 0
        self._windows: list[Window] = []

    def pack(self, body: str) -> list[Window]:
        for block in self._splitter.blocks(body):
            fits_alone = self._used + block.tokens > self._room >= block.tokens
            # Prose may be cut to fill a window that is nearly empty; fences and tables are not.
            if self._new and fits_alone and (block.frame or 2 * self._used >= self._room):
                self._flush()
            self._place(block)
        while self._new:
            self._flush()
        return self._windows

    def _place(self, block: _Block) -> None:
        pending = deque(block.units)
        while pending:
            unit = pending.popleft()
            if unit.tokens + (unit.frame.tokens if unit.frame else 0) > self._room:
                pending.extendleft(reversed(self._splitter.cut(unit)))
                continue
            while self._new and self._used + self._price(unit) > self._room:
                self._flush()
            if self._used + self._price(unit) > self._room:
                self._start([])
            self._add(unit)
            self._new += 1

    def _price(self, unit: _Unit) -> int:
        opens = unit.frame and (not self._current or self._current[-1].frame is not unit.frame)
        return unit.tokens + (unit.frame.tokens if unit.frame and opens else 0)

    def _add(self, unit: _Unit) -> None:
        self._used += self._price(unit)
        self._current.append(unit)

    def _start(self, units: Sequence[_Unit]) -> None:
        self._current, self._used, self._new = [], 0, 0
        for unit in units:
            self._add(unit)

    def _flush(self) -> None:
        """Close the window and start the next one with its last sentences.

        Counts of parts need not add up to the count of the whole in every tokenizer, so the window is counted
        again here, and what is too much moves on to the next one.
        """
        units, carried = list(self._current), deque[_Unit]()
        while (window := self._window(units)).n_tokens > self._policy.max_tokens:
            if len(units) == 1:
                units = self._splitter.cut(units[0])
                if len(units) == 1:
                    raise PermanentError("one character is over the token limit of a window", stage="chunk")
            carried.appendleft(units.pop())
        if window.text.strip():
            self._windows.append(window)
        self._start(carried or self._overlap(units))
        self._new = len(carried)

    def _overlap(self, units: Sequence[_Unit]) -> Sequence[_Unit]:
        last = units[len(units) - self._policy.overlap_sentences :] if self._policy.overlap_sentences else []
        if any(unit.frame or not unit.is_whole for unit in last) or sum(unit.tokens for unit in last) > self._room // 4:
            return []
        return last

    def _window(self, units: Sequence[_Unit]) -> Window:
        return _window(self._prefix, _render(units), self._count)


def _render(units: Sequence[_Unit]) -> str:
    parts: list[str] = []
    frame: _Frame | None = None

    def close() -> None:
        if frame and frame.closing:
            parts.append(("" if parts[-1].endswith("\n") else "\n") + frame.closing)

    for unit in units:
        if unit.frame is not frame:
            close()
            frame = unit.frame
            if frame:
                parts.append(frame.opening)
        parts.append(unit.text)
    close()
    return "".join(parts).strip("\n").rstrip()
