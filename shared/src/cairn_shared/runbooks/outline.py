"""The outline of a Markdown document: its sections and their top-level blocks, by line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

_CHECKBOX = re.compile(r"\[[ xX]\]\s")
_STEP_HEADING = re.compile(r"step\s*#?(\d{1,4}[a-z]?)\b|(\d{1,4}[a-z]?)[.)](?=\s|$)", re.IGNORECASE)
_HEADING_ID = re.compile(r"\s*\{#[^{}\s]*\}\s*$")
_INLINE = MarkdownIt("commonmark")
_SHOWN = frozenset({"fence", "code_block", "table", "blockquote"})


@dataclass(frozen=True)
class Item:
    """An item of a list: its number as written (empty in a plain list), and its lines from 0, end not included."""

    label: str
    start: int
    end: int
    is_check: bool


@dataclass(frozen=True)
class Block:
    """A top-level block, its lines from 0, end not included, and the items if it is a list."""

    type: str
    start: int
    end: int
    items: tuple[Item, ...] = ()

    @property
    def is_ordered(self) -> bool:
        return self.type == "ordered_list"

    @property
    def is_procedure(self) -> bool:
        """An ordered list or a checklist."""
        return self.is_ordered or any(item.is_check for item in self.items)

    @property
    def is_shown(self) -> bool:
        """A fence, table or quotation: what a sentence before it points at."""
        return self.type in _SHOWN


@dataclass
class Section:
    """A heading and the blocks up to the next one. `path` is the headings above and the heading itself."""

    level: int
    heading: str
    path: tuple[str, ...]
    start: int
    blocks: list[Block] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.blocks[-1].end if self.blocks else self.start + 1


@dataclass(frozen=True)
class Outline:
    """A document's sections in order, and its link definitions by normalised label.

    `title` is the heading that names the whole document; it is in no path.
    """

    title: str | None
    sections: tuple[Section, ...]
    references: dict[str, str]

    def below(self, at: int) -> tuple[Section, ...]:
        """The subsections of section number `at`."""
        end = at + 1
        while end < len(self.sections) and self.sections[end].level > self.sections[at].level:
            end += 1
        return self.sections[at + 1 : end]


def block_parser() -> MarkdownIt:
    """CommonMark with tables, blocks only: inline text is read from the source."""
    return MarkdownIt("commonmark").enable("table").disable("inline")


def read_outline(lines: Sequence[str], parser: MarkdownIt) -> Outline:
    """The outline of a document given as its lines, front matter already blank."""
    env: dict[str, Any] = {}
    tokens = parser.parse("\n".join(lines), env)
    texts = {at: heading_text(tokens[at + 1].content) for at, token in enumerate(tokens) if _is_heading(token)}
    titled = _names_document([(_level(tokens[at]), text) for at, text in texts.items()])
    title: str | None = None
    sections = [Section(0, "", (), 0)]
    above: list[tuple[int, str]] = []
    for at, token in enumerate(tokens):
        if _is_heading(token) and token.map:
            level, text = _level(token), texts[at]
            above = [(outer, name) for outer, name in above if outer < level]
            if titled and len(sections) == 1:
                title, text = text, ""
            else:
                above.append((level, text))
            sections.append(Section(level, text, tuple(name for _, name in above if name), token.map[0]))
        elif token.level == 0 and token.nesting >= 0 and token.map and token.type != "hr":
            items = tuple(_items(tokens, at)) if token.type.endswith("list_open") else ()
            start, end = token.map
            sections[-1].blocks.append(Block(token.type.removesuffix("_open"), start, end, items))
    references = {label: str(target.get("href", "")) for label, target in env.get("references", {}).items()}
    return Outline(title or None, tuple(sections), references)


def heading_text(source: str) -> str:
    """The plain text of a heading's Markdown."""
    children = _INLINE.parseInline(_HEADING_ID.sub("", source[:500]))[0].children or []
    return " ".join("".join(child.content or " " for child in children if child.type in _TEXT).split())


_TEXT = frozenset({"text", "code_inline", "softbreak", "hardbreak", "text_special"})


def _is_heading(token: Token) -> bool:
    return token.type == "heading_open" and token.level == 0


def _level(token: Token) -> int:
    return int(token.tag[1:])


def step_label(heading: str) -> str | None:
    """The number in a heading like `Step 3: Restart`, `3. Restart` or `3) Restart`."""
    match = _STEP_HEADING.match(heading)
    return (match[1] or match[2]) if match else None


def _names_document(headings: Sequence[tuple[int, str]]) -> bool:
    """Whether the first heading names the whole: a `#` that is no step, or one that all others are below."""
    if not headings:
        return False
    first, *others = headings
    is_above_all = all(level > first[0] for level, _ in others)
    return (first[0] == 1 or is_above_all) if not step_label(first[1]) else (is_above_all and bool(others))


def _items(tokens: Sequence[Token], opening: int) -> Iterator[Item]:
    for at in range(opening + 1, len(tokens)):
        token = tokens[at]
        if token.level == 0:
            return
        if token.type == "list_item_open" and token.level == 1 and token.map:
            text = next((inner.content for inner in tokens[at + 1 : at + 3] if inner.type == "inline"), "")
            start, end = token.map
            yield Item(token.info, start, end, is_check=bool(_CHECKBOX.match(text)))
