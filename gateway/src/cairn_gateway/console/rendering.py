"""Texts of runbooks and events as HTML. They are data: HTML in them is shown as text, links lead to the web only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from markdown_it import MarkdownIt

_PARSER = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table").disable("image")


@dataclass(frozen=True)
class Piece:
    """A run of prose as HTML, or a code block with its language."""

    html: str = ""
    code: str | None = None
    language: str = ""


def pieces(text: str) -> Iterator[Piece]:
    """Prose and code blocks in turn, in order: a code block has a button of its own."""
    tokens = _PARSER.parse(text)
    run: list[Any] = []
    for token in tokens:
        if token.level == 0 and token.type in {"fence", "code_block"}:
            if run:
                yield Piece(_html(run))
            run = []
            yield Piece(code=token.content.rstrip("\n"), language=token.info.split()[0] if token.info.split() else "")
        else:
            run.append(token)
    if run:
        yield Piece(_html(run))


def prose(text: str) -> str:
    """All of a text as HTML."""
    return _html(_PARSER.parse(text))


def plain(text: object) -> str:
    """One value as HTML."""
    return escape(str(text))


def _html(tokens: Sequence[Any]) -> str:
    for token in tokens:
        for part in (token, *(token.children or ())):
            if part.type == "link_open":
                _outward(part)
    html: str = _PARSER.renderer.render(tokens, _PARSER.options, {})
    return html


def _outward(link: Any) -> None:
    """A link opens apart and tells its target nothing; one that leads nowhere outside of its repository is none."""
    target = str(link.attrGet("href") or "")
    if not target.startswith(("https://", "http://", "mailto:")):
        link.attrs.pop("href", None)
    link.attrSet("rel", "noopener noreferrer nofollow")
    link.attrSet("target", "_blank")
