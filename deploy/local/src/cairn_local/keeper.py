"""Keeps one process running: start it, wait until it answers, start it again when it ends."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

import psutil

from cairn_local import logs, programs
from cairn_local.probes import NotReady
from cairn_local.programs import Program, Server, nothing
from cairn_local.state import Board
from cairn_local.threads import in_thread
from cairn_shared.clock import Clock
from cairn_shared.logging import get_logger
from cairn_shared.retry import Backoff

log = get_logger(__name__)

SETTINGS_EXIT = 2  # cairn_shared.settings.load: a setting is wrong, another try cannot help


class StartError(RuntimeError):
    """A process that never came up; the text says why and ends with its last log lines."""


class Running(Protocol):
    """What the keeper needs of a started process (subprocess.Popen has it)."""

    pid: int

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        ...

    def send_signal(self, sig: int) -> None:
        """Send a signal."""
        ...


Launch = Callable[[Program, IO[bytes]], Running]


@dataclass(frozen=True)
class RestartPolicy:
    """When to start again. Times in seconds."""

    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.5, limit=15.0))
    healthy_after: float = 30.0
    """A process that was ready for so long was well: the back-off begins anew."""
    first_attempts: int = 3
    """So many starts may fail before the first success; then the stack gives up and says why."""
    probe_pause: float = 0.1


@dataclass(frozen=True)
class Unit:
    """A server, what must be ready before it, and what to do each time it is (both may raise RuntimeError)."""

    server: Server
    needs: tuple[str, ...] = ()
    when_ready: Callable[[], None] = nothing

    @property
    def name(self) -> str:
        """The name of its process."""
        return self.server.program.name


def spawn(program: Program, output: IO[bytes]) -> subprocess.Popen[bytes]:
    """The real `Launch`."""
    return programs.start(program, output)


class Keeper:
    """One unit. `run` goes on until `stop`; `check` must be called when a child of this process has ended."""

    def __init__(
        self,
        unit: Unit,
        log_file: Path,
        board: Board,
        *,
        clock: Clock,
        policy: RestartPolicy = RestartPolicy(),
        launch: Launch = spawn,
    ) -> None:
        self.unit = unit
        self.ready = asyncio.Event()
        """Set once it was ready for the first time."""
        self._log_file = log_file
        self._board = board
        self._clock = clock
        self._policy = policy
        self._launch = launch
        self._process: Running | None = None
        self._ended = asyncio.Event()
        self._stop = asyncio.Event()
        self._restarts = 0
        self._ready_at: float | None = None
        self._too_late = False
        self._log_start = 0

    async def run(self) -> None:
        """Start, watch, start again.

        Raises:
            StartError: it never became ready.
        """
        failures = 0
        while not self._stop.is_set():
            self._ready_at = None
            reason = await self._live_once()
            if self._stop.is_set():
                return
            failures = 1 if self._was_healthy() else failures + 1
            if not self.ready.is_set() and (failures >= self._policy.first_attempts or self._hopeless()):
                self._tell("failed", reason)
                raise StartError(self._why(reason))
            delay = self._policy.backoff.delay(failures)
            self._restarts += 1
            self._tell("restarting", reason)
            log.warning("restarting", process=self.unit.name, reason=reason, retry_in=round(delay, 2))
            await self._clock.sleep(delay)

    def check(self) -> None:
        """Notice that the process has ended."""
        if self._process is not None and self._process.poll() is not None:
            self._ended.set()

    async def stop(self) -> None:
        """Ask the process to end, wait, then kill it with its children. Nothing starts again afterwards."""
        self._stop.set()
        process, program = self._process, self.unit.server.program
        if process is None:
            self._tell("stopped", "")
            return
        self._tell("stopping", "")
        if process.poll() is None:
            with suppress(ProcessLookupError):
                process.send_signal(program.stop_signal)
            deadline = self._clock.monotonic() + program.grace
            while process.poll() is None and self._clock.monotonic() < deadline:
                await self._clock.sleep(0.05)
            if process.poll() is None:
                log.warning("killed: it did not stop in time", process=self.unit.name, seconds=program.grace)
        await self._kill()
        self.check()
        self._tell("stopped", "")

    async def _live_once(self) -> str:
        """One life of the process, from start to end; returns why it ended."""
        server = self.unit.server
        self._process = None
        self._tell("starting", "")
        try:
            await in_thread(server.prepare)
            if self._stop.is_set():
                return "stopping"
            logs.rotate(self._log_file)
            with self._log_file.open("ab") as output:
                self._log_start = output.tell()
                self._process = self._launch(server.program, output)
            self._ended.clear()
        except (OSError, RuntimeError) as exc:
            return f"cannot be started: {exc}"
        self._tell("starting", "")
        try:
            reason = await self._until_ready()
            if reason is None:
                await in_thread(self.unit.when_ready)
                self._tell("ready", "")
                self.ready.set()
                self._ready_at = self._clock.monotonic()
                while (code := self._process.poll()) is None:
                    await self._ended.wait()
                    self._ended.clear()
                reason = _how_it_ended(code)
        except RuntimeError as exc:
            reason = str(exc)
        if not self._stop.is_set():
            await self._kill()
        return reason

    async def _until_ready(self) -> str | None:
        """Probe until it answers; else the reason why it does not."""
        server = self.unit.server
        deadline = self._clock.monotonic() + server.ready_timeout
        while True:
            try:
                await in_thread(server.probe)
            except NotReady as exc:
                detail = str(exc)
            else:
                return None
            assert self._process is not None
            code = self._process.poll()
            if code is not None:
                return _how_it_ended(code)
            if self._clock.monotonic() > deadline:
                self._too_late = True
                return f"not ready after {server.ready_timeout:.0f} s: {detail}"
            self._tell("starting", detail)
            await self._clock.sleep(self._policy.probe_pause)

    async def _kill(self) -> None:
        process = self._process
        if process is None:
            return
        programs.signal_group(process.pid, signal.SIGKILL)
        while process.poll() is None:
            await self._clock.sleep(0.02)

    def _why(self, reason: str) -> str:
        """For the user: what this life of the process wrote, or only the settings that it refused."""
        lines = logs.tail(self._log_file, 12, self._log_start)
        if refused := [line for line in dict.fromkeys(lines) if line.startswith("setting ")]:
            return "\n  ".join([f"{self.unit.name} refuses a setting:", *refused])
        return "\n  ".join([f"{self.unit.name}: {reason}", *lines])

    def _was_healthy(self) -> bool:
        return self._ready_at is not None and self._clock.monotonic() - self._ready_at >= self._policy.healthy_after

    def _hopeless(self) -> bool:
        """Whether another first start would only take the user's time."""
        return self._too_late or (self._process is not None and self._process.poll() == SETTINGS_EXIT)

    def _tell(self, status: str, detail: str) -> None:
        process = self._process
        pid = process.pid if process is not None and process.poll() is None else None
        known = self._board.state.processes.get(self.unit.name)
        now = self._clock.now().timestamp()
        if known is not None and (known.status, known.pid, known.detail) == (status, pid, detail):
            return
        since = known.since if known is not None and (known.status, known.pid) == (status, pid) else now
        self._board.process(
            self.unit.name,
            status=status,
            pid=pid,
            created=_created(pid),
            since=since,
            address=public(self.unit.server.address),
            restarts=self._restarts,
            detail=detail,
        )


def public(address: str) -> str:
    """An address without its password."""
    scheme, separator, rest = address.rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _created(pid: int | None) -> float | None:
    if pid is None:
        return None
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return None


def _how_it_ended(code: int) -> str:
    if code < 0:
        try:
            return f"ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"ended by signal {-code}"
    return f"ended with exit code {code}"
