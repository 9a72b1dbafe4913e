"""Who asks, carried across awaits for what is recorded of a question."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Caller:
    """An authenticated caller and the route that was called."""

    user_id: str
    key_id: str
    via: str


caller: ContextVar[Caller | None] = ContextVar("caller", default=None)
