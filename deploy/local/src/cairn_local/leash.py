"""Keeps one server for as long as a given process lives: `python -m cairn_local.leash --owner PID -- PROGRAM...`.

Test runs need it: the process that starts a shared server may end before the others that use it, and the run may be
killed. The leash ends the server on SIGTERM, or when the owner is gone; then it removes the owner's folder as well.
"""

from __future__ import annotations

import argparse
import os
import select
import shutil
import signal
import sys
from pathlib import Path

import psutil

from cairn_local.programs import Program, start, stop

CHECK_SECONDS = 0.5


def main() -> int:
    """Run until the server ends, the owner ends or a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--owner", type=int, required=True)
    parser.add_argument("--stop-signal", type=int, default=int(signal.SIGTERM))
    parser.add_argument("--grace", type=float, default=10.0)
    parser.add_argument("--user")
    parser.add_argument("--cwd", type=Path)
    parser.add_argument("--remove", type=Path, help="folder to remove when the owner is gone")
    parser.add_argument("argv", nargs="+")
    options = parser.parse_args()
    try:
        owner = psutil.Process(options.owner)
    except psutil.NoSuchProcess:
        return 1
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    ended = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: ended.append(number))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    program = Program(
        name=Path(options.argv[0]).name,
        argv=tuple(options.argv),
        user=options.user,
        cwd=options.cwd,
        stop_signal=signal.Signals(options.stop_signal),
        grace=options.grace,
    )
    process = start(program, sys.stderr.buffer)
    while not ended and process.poll() is None and _lives(owner):
        if select.select([reader], [], [], CHECK_SECONDS)[0]:
            os.read(reader, 1024)
    code = stop(process, program)
    if options.remove and not _lives(owner):
        shutil.rmtree(options.remove, ignore_errors=True)
    return 0 if ended else code


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


if __name__ == "__main__":
    sys.exit(main())
