"""Starts a supervisor in the background, follows it until the stack is ready, and stops it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import psutil

from cairn_local import leftovers, logs, state
from cairn_local.home import Home
from cairn_local.programs import python_module
from cairn_local.state import StackState

PAUSE = 0.1
STOP_SECONDS = 60.0
"""Services have 25 s, then stores have 25 s; after this the supervisor is killed, and its children with it."""
Watch = Callable[[StackState], None]


class LaunchError(RuntimeError):
    """The stack did not come up, or did not go down; the text says why."""


@dataclass(frozen=True)
class Detached:
    """A supervisor in the background: its pid, and where in the log its own lines begin."""

    pid: int
    log_start: int = 0


def detach(home: Home) -> Detached:
    """Start a supervisor in a session of its own."""
    home.create()
    log = home.log("supervisor")
    logs.rotate(log)
    with log.open("ab") as output:
        log_start = output.tell()
        process = subprocess.Popen(
            [*python_module("cairn_local"), "supervise"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "CAIRN_HOME": str(home.root)},
            start_new_session=True,
        )
    process.returncode = 0  # it outlives this process on purpose
    return Detached(process.pid, log_start)


def wait_ready(home: Home, watch: Watch, started: Detached | None = None, timeout: float = 300.0) -> StackState:
    """Follow the supervisor until the stack is ready.

    Args:
        home: The stack's folder.
        watch: Told every state.
        started: The supervisor that was just started; None: whichever has the lock.
        timeout: Seconds.

    Raises:
        LaunchError: it failed, was stopped, or took longer than `timeout`.
    """
    deadline = time.monotonic() + timeout
    pid = started.pid if started else None
    while time.monotonic() < deadline:
        current = state.load(home.state)
        if pid is None or current.pid == pid:
            watch(current)
            if current.phase == "running":
                return current
            if current.phase == "failed":
                raise LaunchError(current.detail)
            if current.phase == "stopped":
                raise LaunchError("it was stopped while it started")
        if _gone(home, pid):
            after = state.load(home.state)
            if after.phase == "failed" and after.pid == (pid or after.pid):
                raise LaunchError(after.detail)
            lines = logs.tail(home.log("supervisor"), 400, started.log_start if started else 0)
            raise LaunchError("\n  ".join(["the supervisor ended:", *logs.reasons(lines)]))
        time.sleep(PAUSE)
    raise LaunchError(f"the stack was not ready after {timeout:.0f} s; `cairn-local status` shows what is missing")


def _gone(home: Home, pid: int | None) -> bool:
    if pid is None:
        return not state.is_running(home.lock)
    with suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return not state.is_running(home.lock)


def wait_ended(process: psutil.Process, timeout: float) -> bool:
    """Wait for the end of a process; one that its parent has not reaped has ended too. Returns whether it did."""
    deadline = time.monotonic() + timeout
    while process.is_running() and _status(process) != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE)
    return True


def _status(process: psutil.Process) -> str:
    try:
        return process.status()
    except psutil.NoSuchProcess:
        return psutil.STATUS_ZOMBIE


def stop(home: Home, timeout: float = STOP_SECONDS) -> bool:
    """Stop the stack and wait until nothing of it runs. Returns whether it ran.

    Raises:
        LaunchError: it is still there after it was killed.
    """
    if not state.is_running(home.lock):
        return leftovers.clear(state.load(home.state).processes.values()) > 0
    pid = state.load(home.state).pid
    try:
        supervisor = [psutil.Process(pid)]
    except psutil.NoSuchProcess:
        supervisor = []
    for number, patience in ((signal.SIGTERM, timeout), (signal.SIGKILL, 10.0)):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + patience
        while state.is_running(home.lock):
            if time.monotonic() > deadline:
                break
            time.sleep(PAUSE)
        else:
            for process in supervisor:
                wait_ended(process, patience)
            leftovers.clear(state.load(home.state).processes.values())
            return True
    raise LaunchError(f"the supervisor (pid {pid}) does not end")
