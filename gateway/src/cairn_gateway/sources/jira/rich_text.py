"""Jira's two kinds of rich text as plain Markdown-like text.

Atlassian Document Format: developer.atlassian.com, "Atlassian Document Format". A node that is not known gives the
text inside it, so that a new kind of panel hides nothing.
"""

from __future__ import annotations

import re
from typing import Any

from cairn_gateway.sources.jira.payloads import RichText

_WIKI_BLOCK = re.compile(r"\{(?:code|noformat)(?::[^}\n]{0,200})?\}")
_WIKI_HEADING = re.compile(r"^h([1-6])\.\s+", re.MULTILINE)
_WIKI_LINK = re.compile(r"\[([^\]|\n]{1,300})\|(https?://[^\]|\s]{1,1000})(?:\|[^\]\n]*)?\]")


def plain(text: RichText) -> str:
    """The text of either kind; nothing gives the empty string."""
    if not text:
        return ""
    if isinstance(text, list):
        return "\n\n".join(filter(None, map(plain, text)))
    if isinstance(text, dict):
        return re.sub(r"\n{3,}", "\n\n", _node(text)).strip()
    if not isinstance(text, str):
        return ""
    text = _WIKI_BLOCK.sub("\n```\n", text)
    text = _WIKI_HEADING.sub(lambda match: "#" * int(match[1]) + " ", text)
    return _WIKI_LINK.sub(r"\1 (\2)", text).strip()


def _node(node: Any) -> str:
    if not isinstance(node, dict):
        return ""
    kind = str(node.get("type") or "")
    attributes = node["attrs"] if isinstance(node.get("attrs"), dict) else {}
    if kind == "text":
        return _text(node)
    if kind in _LEAVES:
        return str(next((attributes[name] for name in _LEAVES[kind] if attributes.get(name)), ""))
    content = node.get("content")
    children = [_node(child) for child in content] if isinstance(content, list) else []
    return _branch(kind, attributes, children)


def _branch(kind: str, attributes: dict[str, Any], children: list[str]) -> str:
    inner = "".join(children)
    match kind:
        case "hardBreak":
            text = "\n"
        case "orderedList":
            text = _list([f"{number}. " for number in range(1, len(children) + 1)], children)
        case "bulletList" | "taskList" | "decisionList":
            text = _list(["- "] * len(children), children)
        case "tableRow":
            text = "| " + " | ".join(" ".join(child.split()) for child in children) + " |\n"
        case "heading":
            level = attributes.get("level")
            text = f"\n{'#' * level if isinstance(level, int) and 1 <= level <= 6 else '#'} {inner.strip()}\n\n"
        case "codeBlock":
            text = f"\n```\n{inner}\n```\n\n"
        case "paragraph" | "blockquote" | "panel" | "expand" | "table" | "rule":
            text = inner + "\n\n"
        case _:
            text = inner
    return text


def _list(marks: list[str], children: list[str]) -> str:
    items = (mark + child.strip().replace("\n", "\n  ") for mark, child in zip(marks, children, strict=True))
    return "\n" + "\n".join(items) + "\n"


_LEAVES = {
    "mention": ("text", "id"),
    "emoji": ("text", "shortName"),
    "inlineCard": ("url",),
    "blockCard": ("url",),
    "embedCard": ("url",),
    "status": ("text",),
    "date": ("timestamp",),
}


def _text(node: dict[str, Any]) -> str:
    text = node["text"] if isinstance(node.get("text"), str) else ""
    marks = node.get("marks")
    for mark in marks if isinstance(marks, list) else []:
        attributes = mark.get("attrs") if isinstance(mark, dict) else None
        href = attributes.get("href") if isinstance(attributes, dict) else None
        if isinstance(href, str) and href != text:
            return f"{text} ({href})"
    return text
