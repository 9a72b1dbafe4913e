"""How the services are now: what `/health/ready` says, beside what the supervisor knows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from cairn_local import probes
from cairn_local.state import ProcessState, StackState


def now(state: StackState) -> StackState:
    """The state with every service that is up asked once more; one that is not ready says why."""
    with ThreadPoolExecutor(max_workers=max(1, len(state.processes))) as pool:
        asked = list(pool.map(_asked, state.processes.values()))
    return replace(state, processes={process.name: process for process in asked})


def _asked(process: ProcessState) -> ProcessState:
    if process.status != "ready" or not process.address.startswith("http"):
        return process
    try:
        probes.http(f"{process.address}/health/ready")
    except probes.NotReady as exc:
        return replace(process, status="not ready", detail=str(exc))
    return process
