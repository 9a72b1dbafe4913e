"""What generators and renderers read and people do not: comments, shortcodes, templating tags, layout HTML.

All of it is removed or made readable line by line, code untouched, so that line numbers stay those of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from markdown_it import MarkdownIt

_INLINE_CODE = r"`[^`\n]*`"
_SHORTCODE = re.compile(_INLINE_CODE + r"|\{\{[<%]/?([^{}]*)[%>]\}\}")
_REFERENCE = re.compile(r"""\s*(?:rel)?ref\s+["']?([^"'\s]+)""")
_STATEMENT = re.compile(_INLINE_CODE + r"|\{%[^%{}]*%\}|\{#[^#{}]*#\}")
_EXPRESSION = re.compile(_INLINE_CODE + r"|(\]\()?\{\{([^{}\n]*)\}\}")
_KEYWORD = re.compile(r"[\s-]*(?:if|else|end|range|with|define|template|block|include|partial|end\w+)\b|[\s-]*/\*")
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_LAYOUT = re.compile(
    _INLINE_CODE + r"|</?(?:a|b|br|center|details|div|em|font|hr|i|img|kbd|p|small|span|strong|sub|summary|sup|u"
    r"|table|tbody|td|th|thead|tr)(?:\s[^<>]{0,1000})?/?>",
    re.IGNORECASE,
)
_ATTRIBUTES = re.compile(r"\s*(?:\{:[^{}]*\}|\[TOC\]|\[\[_TOC_\]\])\s*", re.IGNORECASE)


def remove_noise(lines: list[str], parser: MarkdownIt) -> list[str]:
    """`lines` without noise outside of fences and indented code; always as many lines as before."""
    if not any(mark in line for line in lines for mark in "<{["):
        return lines
    cleaned: list[str] = []
    for is_code, run in _runs(lines, parser):
        cleaned += run if is_code else _clean("\n".join(run)).split("\n")
    return cleaned


def without_comments(text: str) -> str:
    """Markdown without its HTML comments, code untouched: what a template tells the author, no reader sees."""
    if "<!--" not in text:
        return text
    runs = _runs(text.split("\n"), MarkdownIt("commonmark"))
    return "\n".join("\n".join(run) if is_code else _without_comments("\n".join(run)) for is_code, run in runs)


def _runs(lines: list[str], parser: MarkdownIt) -> Iterator[tuple[bool, list[str]]]:
    """Runs of code lines and of other lines, in turn."""
    at = 0
    for token in parser.parse("\n".join(lines)):
        if token.type in ("fence", "code_block") and token.map:
            start, end = max(at, token.map[0]), min(token.map[1], len(lines))
            if start < end:
                if at < start:
                    yield False, lines[at:start]
                yield True, lines[start:end]
                at = end
    if at < len(lines):
        yield False, lines[at:]


def _clean(text: str) -> str:
    text = _without_comments(text)
    if "{" in text:
        text = _sub(_SHORTCODE, _shortcode, text)
        text = _sub(_STATEMENT, lambda _: "", text)
        text = _sub(_EXPRESSION, _expression, text)
    if "<" in text:
        text = _sub(_LAYOUT, lambda match: " " if match[0].casefold().startswith("<br") else "", text)
    return "\n".join("" if _ATTRIBUTES.fullmatch(line) else line for line in text.split("\n"))


def _sub(pattern: re.Pattern[str], replacement: Callable[[re.Match[str]], str], text: str) -> str:
    """Like `re.sub`, but code spans stay and what is replaced leaves its line breaks behind."""

    def replace(match: re.Match[str]) -> str:
        if match[0].startswith("`"):
            return match[0]
        return replacement(match) + "\n" * match[0].count("\n")

    return pattern.sub(replace, text)


def _without_comments(text: str) -> str:
    """Comments go; the mark of one that is never closed goes, its text stays, since losing steps would be worse."""
    kept: list[str] = []
    at = 0
    while (start := text.find("<!--", at)) >= 0:
        near = max(0, start - 200)
        line = text[max(near, text.rfind("\n", near, start) + 1) : start]
        after = text[start : start + 200].split("\n", 1)[0]
        end = text.find("-->", start + 4)
        if line.count("`") % 2 and "`" in after:
            kept.append(text[at : start + 4])
            at = start + 4
            continue
        if end < 0:
            kept.append(text[at:].replace("<!--", ""))
            return "".join(kept)
        kept += text[at:start], "\n" * text.count("\n", start, end)
        at = end + 3
    return "".join(kept) + text[at:]


def _shortcode(match: re.Match[str]) -> str:
    reference = _REFERENCE.match(match[1] or "")
    return reference[1] if reference else ""


def _expression(match: re.Match[str]) -> str:
    """`{{ $labels.pod }}` as `{pod}`; nothing for statements, and in front of a link's path."""
    link, expression = match[1] or "", match[2]
    if link or _KEYWORD.match(expression):
        return link
    names = _NAME.findall(expression.split("|")[0])
    return "{" + names[-1] + "}" if names else ""
