"""How long a request may still take: counted from its arrival, and told to the next process."""

from __future__ import annotations

import time
from collections.abc import MutableMapping
from typing import Any

from fastapi import Request

from cairn_shared.context import DEADLINE_HEADER

_ARRIVED = "cairn.arrived"


def note_arrival(scope: MutableMapping[str, Any]) -> None:
    """The request came now."""
    scope[_ARRIVED] = time.monotonic()


def seconds_left(request: Request, most: float) -> float:
    """Of `most` seconds, or of fewer where the caller gives it fewer; never negative."""
    told = request.headers.get(DEADLINE_HEADER, "")
    allowed = min(most, int(told) / 1000) if told.isascii() and told.isdigit() and len(told) < 10 else most
    arrived: float = request.scope[_ARRIVED]
    return max(0.0, allowed - (time.monotonic() - arrived))
