"""Processes of a running stack taken away and given back: hanging, or dead for as long as the test wants."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
from whole_stack import Stack, until


@contextmanager
def hanging(stack: Stack, *names: str) -> Iterator[None]:
    """They accept connections and never answer (SIGSTOP, children too); afterwards they go on as if nothing was."""
    known = stack.state()
    stopped: list[psutil.Process] = []
    try:
        for name in names:
            leader = psutil.Process(known[name]["pid"])
            leader.suspend()  # first, so that it starts no further child
            stopped.append(leader)
            for child in leader.children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    child.suspend()
                    stopped.append(child)
        yield
    finally:
        for process in reversed(stopped):
            with suppress(psutil.NoSuchProcess):
                process.resume()


@contextmanager
def dead(stack: Stack, *names: str) -> Iterator[None]:
    """They are killed and refuse connections, while the supervisor sleeps; afterwards it starts them again."""
    known = stack.state()
    supervisor = int(json.loads((stack.home / "state.json").read_text())["pid"])
    os.kill(supervisor, signal.SIGSTOP)
    try:
        for name in names:
            leader = psutil.Process(known[name]["pid"])
            for process in (leader, *leader.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        yield
    finally:
        os.kill(supervisor, signal.SIGCONT)
        for name in names:
            until(lambda name=name: _came_back(stack, name, known[name]["pid"]), f"{name} to come back", 90)  # type: ignore[misc]


def _came_back(stack: Stack, name: str, pid: int) -> bool:
    process = stack.state()[name]
    return bool(process["status"] == "ready" and process["pid"] != pid)
