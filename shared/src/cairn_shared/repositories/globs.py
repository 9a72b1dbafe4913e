"""Patterns of paths, as in .gitignore: `*` and `?` stay in a folder, `**` crosses folders, a pattern without `/`
matches in any folder.

Patterns and paths are both written by strangers, so neither may make matching slow: each `*` takes the first place
where what follows it fits and never tries another, which finds a match wherever there is one (the standard library's
`fnmatch` does so within a segment, `Glob` does so between segments).
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from cairn_shared.errors import InvalidInput

MAX_PATTERN = 300


@dataclass(frozen=True)
class Glob:
    """A pattern, segment by segment; None stands for `**`."""

    segments: tuple[re.Pattern[str] | None, ...]

    def matches(self, path: str) -> bool:
        """Whether the whole of `path` (with `/`) matches, in at most (segments of both) comparisons multiplied."""
        names, wanted = path.split("/"), self.segments
        name = at = 0
        crossing: tuple[int, int] | None = None
        while name < len(names):
            segment = wanted[at] if at < len(wanted) else None
            if at < len(wanted) and segment is None:
                crossing = (at, name)
                at += 1
            elif segment is not None and segment.fullmatch(names[name]):
                at, name = at + 1, name + 1
            elif crossing is not None:
                # The last `**` takes one folder more; what stood before it is settled.
                crossing = (crossing[0], crossing[1] + 1)
                at, name = crossing[0] + 1, crossing[1]
            else:
                return False
        return all(segment is None for segment in wanted[at:])


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Glob:
    """The pattern, ready for whole paths.

    Raises:
        InvalidInput: it is empty, too long, or has an unclosed `[`.
    """
    if not pattern.strip("/") or len(pattern) > MAX_PATTERN:
        raise InvalidInput(f"a pattern has 1 to {MAX_PATTERN} characters", field="pattern")
    anchored = pattern.strip("/") if "/" in pattern.rstrip("/") else f"**/{pattern.rstrip('/')}"
    if pattern.endswith("/") or anchored.endswith("/**"):
        anchored = f"{anchored.rstrip('/').removesuffix('/**')}/**/*"  # what is in the folder, not the folder
    return Glob(tuple(None if segment == "**" else _segment(segment, pattern) for segment in anchored.split("/")))


def _segment(segment: str, pattern: str) -> re.Pattern[str]:
    at = 0
    while (at := segment.find("[", at)) >= 0:
        # As fnmatch reads it: `]` right after `[` or `[!` is one of the set.
        end = segment.find("]", at + 2 + segment.startswith("!", at + 1))
        if end < 0:
            raise InvalidInput(f"the pattern {pattern} has an unclosed [", field="pattern")
        at = end + 1
    return re.compile(fnmatch.translate(segment))


def selects(path: str, include: Iterable[str], exclude: Iterable[str]) -> bool:
    """Whether `path` matches one of `include` and none of `exclude`."""
    if not any(compile_pattern(pattern).matches(path) for pattern in include):
        return False
    return not any(compile_pattern(pattern).matches(path) for pattern in exclude)
