"""Ends what a supervisor that was killed left running, without ever touching a process that is somebody else's."""

from __future__ import annotations

from collections.abc import Iterable

import psutil

from cairn_local.state import ProcessState

GRACE_SECONDS = 10.0


def clear(processes: Iterable[ProcessState], grace: float = GRACE_SECONDS) -> int:
    """End those that still live, waiting up to twice `grace` seconds. Returns how many there were."""
    found = [alive for process in processes if (alive := living(process)) is not None]
    for process in found:
        process.terminate()
    _, stubborn = psutil.wait_procs(found, timeout=grace)
    for process in stubborn:
        process.kill()
    psutil.wait_procs(stubborn, timeout=grace)
    return len(found)


def living(process: ProcessState) -> psutil.Process | None:
    """The very process that the state names, if it lives: its pid may be another's by now."""
    if process.pid is None or process.created is None:
        return None
    try:
        found = psutil.Process(process.pid)
        same = abs(found.create_time() - process.created) < 0.02
    except psutil.NoSuchProcess:
        return None
    return found if same and found.status() != psutil.STATUS_ZOMBIE else None
