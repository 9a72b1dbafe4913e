"""How much a command can do, as an order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

Safety = Literal["read-only", "changes state", "destructive"]

READ_ONLY: Final[Safety] = "read-only"
CHANGES: Final[Safety] = "changes state"
DESTRUCTIVE: Final[Safety] = "destructive"

_ORDER: Final = (READ_ONLY, CHANGES, DESTRUCTIVE)


def worst(levels: Iterable[Safety]) -> Safety:
    """The most dangerous of `levels`; READ_ONLY when there are none."""
    return max(levels, key=_ORDER.index, default=READ_ONLY)
