"""Liveness and readiness: whoever opens a resource registers how to check it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

Check = Callable[[], Awaitable[None]]
"""Returns when the dependency answers, raises when it does not."""


class Readiness:
    """The checks of one process. `failures()` is empty when it can do its work."""

    def __init__(self, timeout: float = 2.0) -> None:
        self._timeout = timeout
        self._checks: dict[str, Check] = {}

    def register(self, name: str, check: Check) -> None:
        """Add the dependency `name`."""
        self._checks[name] = check

    async def failures(self) -> dict[str, str]:
        """Names of the dependencies that fail, with the kind of failure (never its details)."""
        names = list(self._checks)
        results = await asyncio.gather(*(self._run(name) for name in names))
        return {name: reason for name, reason in zip(names, results, strict=True) if reason}

    async def _run(self, name: str) -> str | None:
        try:
            async with asyncio.timeout(self._timeout):
                await self._checks[name]()
        except TimeoutError:
            return "timed out"
        except Exception as exc:  # noqa: BLE001 - any failure means not ready
            return type(exc).__name__
        return None
