"""One child process: what to run, and how to start and end it so that it never outlives its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def python_module(name: str) -> tuple[str, ...]:
    """The words that run a Python module as a program.

    With `-P`: `-m` alone puts the current folder first on the path, so that whatever stands in the folder in which
    somebody types `cairn-local up` would be imported (a `grp.py` there ended every start).
    """
    return (sys.executable, "-P", "-m", name)


@dataclass(frozen=True)
class Program:
    """What to run. `env` is added to the environment of the parent; a value of None takes a name out of it."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str | None] = field(default_factory=dict)
    user: str | None = None
    """System user to run as; None: the present one."""
    cwd: Path | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    grace: float = 25.0
    """Seconds between the stop signal and SIGKILL; more than the 20 s that a service takes at most."""


def nothing() -> None:
    """No preparation."""


@dataclass(frozen=True)
class Server:
    """A program that others connect to."""

    program: Program
    probe: Callable[[], None]
    """Raises while the server does not answer; blocks for a few seconds at most."""
    address: str
    """How clients reach it: a DSN, a URL or host:port."""
    prepare: Callable[[], None] = nothing
    """Run before every start; must be harmless when there is nothing to do."""
    ready_timeout: float = 60.0


def start(program: Program, output: IO[bytes] | int) -> subprocess.Popen[bytes]:
    """Start `program` in its own session, both outputs going to `output`.

    The kernel kills it when the thread that called this ends (Linux), so call it from a main thread.

    Raises:
        OSError: it cannot be executed.
    """
    environment = {**os.environ, **{name: value for name, value in program.env.items() if value is not None}}
    for name, value in program.env.items():
        if value is None:
            environment.pop(name, None)
    return subprocess.Popen(
        program.argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd=program.cwd,
        start_new_session=True,
        user=program.user,
        group=program.user,
        extra_groups=[] if program.user else None,
        umask=0o077,  # what servers keep is nobody else's to read
        preexec_fn=_die_with_parent(program, os.getpid()),  # noqa: PLW1509 - calls prctl alone, no Python locks
    )


def _die_with_parent(program: Program, parent: int) -> Callable[[], None] | None:
    if _libc is None:
        return None
    prctl = _libc.prctl
    # PostgreSQL needs its own stop signal, or its children stay until they notice; everything else can be killed.
    last = program.stop_signal if program.stop_signal is signal.SIGINT else signal.SIGKILL

    def in_child() -> None:
        prctl(_PR_SET_PDEATHSIG, int(last))
        if os.getppid() != parent:  # it died between fork and prctl
            os._exit(127)

    return in_child


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to the whole session of `pid`; it may be gone already."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def stop(process: subprocess.Popen[bytes], program: Program) -> int:
    """Ask, wait for the grace time, then kill, with all children. Returns the exit code."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            process.send_signal(program.stop_signal)
        try:
            process.wait(program.grace)
        except subprocess.TimeoutExpired:
            process.kill()
    signal_group(process.pid, signal.SIGKILL)
    return process.wait()
