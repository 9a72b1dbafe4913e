"""Patterns of paths, as in .gitignore: `*` and `?` stay in a folder, `**` crosses folders, a pattern without `/`
matches in any folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from cairn_shared.errors import InvalidInput

MAX_PATTERN = 300


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern as an expression over whole paths with `/`.

    Raises:
        InvalidInput: it is empty, too long, or has an unclosed `[`.
    """
    if not pattern.strip("/") or len(pattern) > MAX_PATTERN:
        raise InvalidInput(f"a pattern has 1 to {MAX_PATTERN} characters", field="pattern")
    anchored = pattern.strip("/") if "/" in pattern.rstrip("/") else f"**/{pattern.rstrip('/')}"
    if pattern.endswith("/"):
        anchored += "/**"
    parts: list[str] = []
    at = 0
    while at < len(anchored):
        token, at = _token(anchored, at)
        parts.append(token)
    try:
        return re.compile("".join(parts), re.DOTALL)
    except re.error as exc:
        raise InvalidInput(f"the pattern {pattern} has a [ ] that means nothing", field="pattern") from exc


def _token(pattern: str, at: int) -> tuple[str, int]:
    if pattern.startswith("**/", at):
        return "(?:[^/]+/)*", at + 3
    if pattern.startswith("**", at):
        return ".*", at + 2
    character = pattern[at]
    if character == "*":
        return "[^/]*", at + 1
    if character == "?":
        return "[^/]", at + 1
    if character != "[":
        return re.escape(character), at + 1
    end = pattern.find("]", at + 2)
    if end < 0:
        raise InvalidInput(f"the pattern {pattern} has an unclosed [", field="pattern")
    inner = pattern[at + 1 : end]
    negated = "^" if inner[0] == "!" else ""
    inner = negated + re.sub(r"([^A-Za-z0-9-]|--)", lambda match: re.escape(match[1]), inner.removeprefix("!"))
    return f"[{inner}]", end + 1


def selects(path: str, include: Iterable[str], exclude: Iterable[str]) -> bool:
    """Whether `path` matches one of `include` and none of `exclude`."""
    if not any(compile_pattern(pattern).fullmatch(path) for pattern in include):
        return False
    return not any(compile_pattern(pattern).fullmatch(path) for pattern in exclude)
