"""What the stack is doing, as `.cairn/state.json`: written by the supervisor alone, read by every other command."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from cairn_local.home import private_file
from cairn_local.locks import Held, acquire
from cairn_shared.logging import get_logger

log = get_logger(__name__)

Phase = Literal["starting", "running", "stopping", "stopped", "failed"]
Status = Literal["waiting", "starting", "ready", "restarting", "stopping", "stopped", "failed", "not ready"]


@dataclass(frozen=True)
class ProcessState:
    """One process. Times are seconds since the epoch."""

    name: str
    status: Status = "waiting"
    address: str = ""
    pid: int | None = None
    created: float | None = None
    """When the kernel says it began: pid and this together name a process for ever."""
    since: float = 0.0
    restarts: int = 0
    detail: str = ""


@dataclass(frozen=True)
class StackState:
    """The whole stack. `detail` is for the user to read."""

    phase: Phase = "stopped"
    pid: int = 0
    started: float = 0.0
    url: str = ""
    detail: str = ""
    broker: str = ""
    salt: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    """Keyed hashes of the settings that the environment gave (`choices.digests`)."""
    processes: dict[str, ProcessState] = field(default_factory=dict)


def load(path: Path) -> StackState:
    """The last state that was written; an empty one where there is none."""
    try:
        found = json.loads(path.read_text())
        processes = {name: ProcessState(**values) for name, values in found.pop("processes").items()}
        return StackState(**found, processes=processes)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return StackState()


def is_running(lock: Path) -> bool:
    """Whether a supervisor lives: it holds the lock, and the kernel lets it go when it dies."""
    if not lock.exists():
        return False
    try:
        acquire(lock, wait=False).close()
    except Held:
        return True
    return False


class Board:
    """The state in the supervisor's hands: every change is written at once and told to who watches."""

    def __init__(self, path: Path, state: StackState, watch: Callable[[StackState], None] = lambda _: None) -> None:
        self._path = path
        self._watch = watch
        self.state = state
        self._save()

    def stack(self, **changes: Any) -> None:
        """Change the stack's own fields."""
        self.state = replace(self.state, **changes)
        self._write()

    def process(self, name: str, **changes: Any) -> None:
        """Change one process."""
        known = self.state.processes.get(name, ProcessState(name))
        self.state = replace(self.state, processes={**self.state.processes, name: replace(known, **changes)})
        self._write()

    def _write(self) -> None:
        try:
            self._save()
        except OSError as exc:  # a full disk must not take the stack down with it
            log.warning("the state cannot be written", reason=str(exc))
        self._watch(self.state)

    def _save(self) -> None:
        partial = self._path.with_name(f"{self._path.name}.{os.getpid()}.part")
        private_file(partial)
        partial.write_text(json.dumps(asdict(self.state), indent=1) + "\n")
        partial.replace(self._path)
