"""A limit on what is worked on at once, so that a flood of questions cannot drown those that were admitted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cairn_shared.errors import Overloaded


@dataclass(frozen=True)
class Room:
    """`places` at once; as many as `queue` wait for one, for `patience` seconds at most."""

    places: int
    queue: int
    patience: float


class Bulkhead:
    """Admits in the order of arrival."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._free = asyncio.Semaphore(room.places)
        self._waiting = 0

    @asynccontextmanager
    async def place(self, seconds: float) -> AsyncIterator[None]:
        """A place for the time of the context, waited for no longer than `seconds`.

        Raises:
            Overloaded: there is none in time.
        """
        await self._admitted(min(seconds, self._room.patience))
        try:
            yield
        finally:
            self._free.release()

    async def _admitted(self, seconds: float) -> None:
        if self._free.locked() and self._waiting >= self._room.queue:
            raise Overloaded
        self._waiting += 1
        try:
            async with asyncio.timeout(seconds):
                await self._free.acquire()
        except TimeoutError as exc:
            raise Overloaded from exc
        finally:
            self._waiting -= 1
