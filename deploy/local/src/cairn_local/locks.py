"""Locks between processes: flock on a file, so that a crash releases them."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


class Held(RuntimeError):
    """Another process holds the lock."""


def acquire(path: Path, *, wait: bool) -> IO[str]:
    """The lock at `path` as an open file: it is held until that is closed or the process ends.

    Raises:
        Held: `wait` is False and another process has it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = path.open("a+")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError as exc:
        handle.close()
        raise Held(str(path)) from exc
    return handle


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock at `path`, waiting for it."""
    with acquire(path, wait=True):
        yield
