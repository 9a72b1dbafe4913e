"""Blocking work beside an event loop, in threads that never hold up the end of the process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a daemon thread and wait for it.

    `asyncio.to_thread` would do but for the end: the loop and the interpreter wait for its threads, so that one that
    retries against a store which is being stopped would keep the supervisor alive for as long as it retries.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(set_it: Callable[[], None]) -> None:
        if not future.done():  # cancelled meanwhile
            set_it()

    def run() -> None:
        try:
            result = work()
        except BaseException as exc:  # noqa: BLE001 - carried over to the loop
            failure = exc
            deliver: Callable[[], None] = lambda: future.set_exception(failure)  # noqa: E731
        else:
            deliver = lambda: future.set_result(result)  # noqa: E731
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, deliver)

    threading.Thread(target=run, name="blocking", daemon=True).start()
    return await future
