"""Child processes that die and come back: what a supervisor does, with a hand on every death."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from cairn_local import programs
from cairn_local.probes import NotReady
from cairn_local.programs import Server

RESTART_PAUSE = 0.3


@dataclass
class Process:
    """One server that is kept running while `wanted`. `crash_points` are set for its next lives, one each."""

    server: Server
    log: Path
    wanted: bool = True
    crash_points: list[str] = field(default_factory=list)
    deaths: Counter[str] = field(default_factory=Counter)
    died_at: list[str] = field(default_factory=list)
    suspended: bool = False
    lives: int = 0
    _process: subprocess.Popen[bytes] | None = None
    _armed: str | None = None
    _expected: str | None = None

    @property
    def name(self) -> str:
        return self.server.program.name

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def armed(self) -> str | None:
        """The crash point of its present life."""
        return self._armed if self.runs else None

    def start(self) -> None:
        """Begin a life. Blocks for the time of a fork, plus the server's own preparation."""
        self.server.prepare()
        self._armed = self.crash_points.pop(0) if self.crash_points else None
        self._expected = None
        program = self.server.program
        environment = {**program.env, "CAIRN_CRASHPOINT": self._armed}
        self.lives += 1
        with self.log.open("ab") as output:
            self._process = programs.start(replace(program, env=environment), output)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> bool:
        """Kill it, with all its children when it gets no chance to do so itself; False when it does not run."""
        if not self.runs:
            return False
        self._expected = number.name
        # PostgreSQL's children lead sessions of their own.
        children = psutil.Process(self.pid).children(recursive=True) if number is signal.SIGKILL else []
        os.kill(self.pid, number)
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        if self.suspended:
            self.resume()
        return True

    def suspend(self) -> bool:
        if not self.runs or self.suspended:
            return False
        os.kill(self.pid, signal.SIGSTOP)
        self.suspended = True
        return True

    def resume(self) -> None:
        self.suspended = False
        if self.runs:
            os.kill(self.pid, signal.SIGCONT)

    def note_end(self) -> None:
        """Why the life that just ended did so: by a signal that was sent, at a crash point, or by itself."""
        assert self._process is not None
        code = self._process.wait()
        if code == -signal.SIGKILL and self._armed and self._expected != "SIGKILL":
            self.deaths["crash point"] += 1
            self.died_at.append(self._armed)
        elif self._expected:
            self.deaths[self._expected] += 1
        else:
            self.deaths[f"exit {code}"] += 1
        self._armed = None
        self._process = None

    def ready(self) -> bool:
        """Whether it answers. Blocks for some seconds at most."""
        try:
            self.server.probe()
        except NotReady:
            return False
        return True

    async def wait_ready(self, seconds: float = 120) -> None:
        async with asyncio.timeout(seconds):
            while not (self.runs and await asyncio.to_thread(self.ready)):
                await asyncio.sleep(0.1)

    def stop(self) -> None:
        """End it for good."""
        self.wanted = False
        if self._process is None:
            return
        self.resume()
        programs.stop(self._process, replace(self.server.program, grace=8.0))
        self._process = None


class Guardian:
    """Starts again what died. Lives on the main thread: a child dies with the thread that started it."""

    def __init__(self) -> None:
        self.processes: dict[str, Process] = {}

    def add(self, process: Process) -> Process:
        self.processes[process.name] = process
        return process

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            for process in list(self.processes.values()):
                if process._process is not None and not process.runs:
                    process.note_end()
                if process._process is None and process.wanted:
                    await asyncio.sleep(RESTART_PAUSE)
                    if process.wanted:
                        process.start()
            await asyncio.sleep(0.05)

    def stop(self) -> None:
        """End everything, services before stores (they were added last)."""
        for process in reversed(list(self.processes.values())):
            process.stop()
