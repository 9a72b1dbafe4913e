"""Real servers for a test run: each started once by whoever needs it first, shared by all workers of the run.

A run has one folder, made by the pytest process that the user started (the owner). Who needs a server takes that
server's lock in the folder, and starts it on a leash to the owner unless its description is there already.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from pydantic import SecretStr

from cairn_local import backends, migrate, probes
from cairn_local.locks import locked
from cairn_local.ports import free_port
from cairn_local.programs import Server, python_module

TEMPLATE = "cairn_template"
PREFIX = "cairn-tests-"
PASSWORD = "for-tests-only"  # noqa: S105 - of servers that live for one test run on 127.0.0.1


class StartFailed(RuntimeError):
    """A server of the test run did not come up; the text ends with its last log lines."""


@dataclass(frozen=True)
class TestServers:
    """The servers of one run. All methods block."""

    __test__ = False  # not a test class, whatever its name begins with

    folder: Path
    owner: int

    @classmethod
    def create(cls) -> TestServers:
        """The servers of a run that this process owns; nothing is started yet."""
        _sweep()
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        folder.chmod(0o711)  # PostgreSQL's system user passes through
        return cls(folder, os.getpid())

    def postgres(self) -> str:
        """The DSN of the maintenance database; the migrated template is there."""

        def start() -> dict[str, Any]:
            server = backends.postgres(self.folder / "postgres" / "data", free_port(), PASSWORD)
            pid = self._start(server)
            dsn = SecretStr(f"{server.address.rpartition('/')[0]}/{TEMPLATE}")
            probes.blocking(migrate.migrate_postgres(dsn))
            return {"address": server.address, "pid": pid}

        return str(self._once("postgres", start)["address"])

    def redis(self) -> str:
        """The address of Redis without a database number."""

        def start() -> dict[str, Any]:
            server = backends.redis(self.folder / "redis", free_port(), PASSWORD)
            return {"address": server.address, "pid": self._start(server)}

        return str(self._once("redis", start)["address"]).rpartition("/")[0]

    def mongo(self) -> str:
        """The URI of MongoDB."""

        def start() -> dict[str, Any]:
            server = backends.mongo(self.folder / "mongo", free_port())
            return {"address": server.address, "pid": self._start(server)}

        return str(self._once("mongo", start)["address"])

    def kafka(self) -> str:
        """The bootstrap address of the broker."""

        def start() -> dict[str, Any]:
            server = backends.kafka(self.folder / "kafka", free_port(), free_port())
            return {"address": server.address, "pid": self._start(server)}

        return str(self._once("kafka", start)["address"])

    def embedder(self) -> str:
        """The URL of an embedder with the real model."""
        redis = self.redis()

        def start() -> dict[str, Any]:
            from cairn_local import services

            server = services.embedder(free_port(), {"REDIS_URL": f"{redis}/0", "OMP_NUM_THREADS": "1"})
            return {"address": server.address, "pid": self._start(server)}

        return str(self._once("embedder", start)["address"])

    def stop(self) -> None:
        """End everything that was started, and remove the folder. For the owner, at the end of the run."""
        pids = [int(json.loads(file.read_text())["pid"]) for file in self.folder.glob("*.json")]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 15
        for pid in pids:
            while _lives(pid) and time.monotonic() < deadline:
                time.sleep(0.02)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _once(self, name: str, start: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        description = self.folder / f"{name}.json"
        with locked(self.folder / f"{name}.lock"):
            if not description.exists():
                made = start()
                partial = description.with_suffix(".part")
                partial.write_text(json.dumps(made))
                partial.rename(description)
            found: dict[str, Any] = json.loads(description.read_text())
            return found

    def _start(self, server: Server) -> int:
        program = server.program
        server.prepare()
        log = self.folder / f"{program.name}.log"
        environment = {**os.environ, **{name: value for name, value in program.env.items() if value is not None}}
        for name, value in program.env.items():
            if value is None:
                environment.pop(name, None)
        command = [*python_module("cairn_local.leash"), "--owner", str(self.owner)]
        command += ["--remove", str(self.folder), "--stop-signal", str(int(program.stop_signal)), "--grace", "8"]
        command += ["--user", program.user] if program.user else []
        command += ["--cwd", str(program.cwd)] if program.cwd else []
        with log.open("wb") as output:
            leash = subprocess.Popen(
                [*command, "--", *program.argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        try:
            _wait(server, leash, log)
        except BaseException:
            leash.terminate()
            leash.wait(15)
            raise
        leash.returncode = 0  # it outlives this object on purpose: no ResourceWarning when that is collected
        return leash.pid


def _sweep() -> None:
    """Remove the folders of runs that were killed before any leash was there to do it."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def _wait(server: Server, leash: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + server.ready_timeout
    delay = 0.02
    while True:
        try:
            server.probe()
        except probes.NotReady as exc:
            if leash.poll() is not None or time.monotonic() > deadline:
                lines = log.read_text(errors="replace").splitlines()[-15:]
                raise StartFailed("\n".join([f"{server.program.name} did not start: {exc}", *lines])) from exc
        else:
            return
        time.sleep(delay)
        delay = min(delay * 1.5, 0.3)


def _lives(pid: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # a child of this process must be reaped, or it seems to live
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
