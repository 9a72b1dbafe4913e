"""Watchers beside a test: one that fails ends the test, for what nobody watched did not hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def watching(*watchers: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `watchers`, which have no end of their own, until the block ends.

    Raises:
        ExceptionGroup: a watcher failed; the block is cancelled then.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in watchers]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
