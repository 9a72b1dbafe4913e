"""What a text points to: tickets, issues, commits and links."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_REFERENCES = 50

_REFERENCE = re.compile(
    r"""
      (?P<url>https?://[^\s<>()\[\]"'`]{4,500})
    | (?<![\w/-])(?P<ticket>[A-Z][A-Z0-9_]{1,9}-[1-9]\d{0,6})(?![\w-])
    | (?<![\w/&])(?P<issue>(?:[\w.-]{1,60}/[\w.-]{1,60})?[#!][1-9]\d{0,8})(?!\w)
    | \bThis\ reverts\ commit\ (?P<commit>[0-9a-f]{7,64})\b
    """,
    re.VERBOSE,
)
_NOT_TICKETS = frozenset({"UTF", "SHA", "ISO", "RFC", "CVE", "AES", "RSA", "MD", "HTTP", "TLS", "ECMA", "IEEE", "IPV"})


def references(texts: Iterable[str | None]) -> list[str]:
    """References in the order of appearance, each once, at most 50: `PROJ-123`, `#33173`, `owner/repo#1`, `!4`,
    URLs, and commits that are reverted.
    """
    found: dict[str, None] = {}
    for text in texts:
        for match in _REFERENCE.finditer(text or ""):
            value = match[match.lastgroup or 0].rstrip(".,;:!?*_")
            if match.lastgroup == "ticket" and value.partition("-")[0] in _NOT_TICKETS:
                continue
            found[value] = None
            if len(found) == MAX_REFERENCES:
                return list(found)
    return list(found)
