"""Small pieces of HTML. Whatever comes from outside goes through `plain` (`rendering.py`) first."""

from __future__ import annotations

from nicegui import ui

from cairn_gateway.console.rendering import plain


def html(*parts: str) -> ui.html:
    """HTML of our own making, a space between the parts."""
    return ui.html(" ".join(part for part in parts if part), sanitize=False)


def tag(text: object, kind: str = "") -> str:
    """A label: `ok`, `warn`, `bad` or plain."""
    return f'<span class="tag {kind}">{plain(text)}</span>'


def soft(text: object, more: str = "small") -> str:
    """Text in the background."""
    return f'<span class="soft {more}">{plain(text)}</span>'


def mono(text: object) -> str:
    """Text as it stands in a terminal."""
    return f'<span class="mono small">{plain(text)}</span>'


def heading(text: object, level: int = 1) -> ui.html:
    """A heading."""
    return html(f"<h{level}>{plain(text)}</h{level}>")
