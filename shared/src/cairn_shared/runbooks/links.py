"""Which pages of a folder link to which. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from urllib.parse import unquote

_LINK = re.compile(r"\]\(\s*<?([^()\s<>]{1,500})")
_SUFFIX = re.compile(r"\.(?:md|markdown|html)$", re.IGNORECASE)


def targets(text: str, path: str) -> Iterator[str]:
    """The paths that the relative links of a page at `path` lead to, without their suffix."""
    for found in _LINK.finditer(text):
        target = unquote(found[1]).partition("#")[0].partition("?")[0]
        if target and "://" not in target and not target.startswith(("/", "mailto:")):
            yield without_suffix(posixpath.normpath(posixpath.join(posixpath.dirname(path), target)))


def without_suffix(path: str) -> str:
    """Pages are linked to as `page.md`, `page.html` and `page`."""
    return _SUFFIX.sub("", path)
