"""Many callers, few reads: whoever comes while a read is under way shares the next one with all who wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Latest(Generic[T]):
    """A read whose answer is never older than the call that asks for it, and of which at most one runs at a time."""

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """What a read gives that begins after this call.

        Raises:
            Exception: what the read raises, to everybody who shares it.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._running))
            self._next.add_done_callback(_seen)
        # Shielded: one caller that leaves must not take the answer from the others.
        return await asyncio.shield(self._next)

    async def _after(self, before: asyncio.Task[T] | None) -> T:
        if before is not None:
            await asyncio.wait({before})
        self._running, self._next = self._next, None
        return await self._read()


def _seen(task: asyncio.Task[T]) -> None:
    """All callers may have left: then nobody else looks at the failure."""
    if not task.cancelled():
        task.exception()
