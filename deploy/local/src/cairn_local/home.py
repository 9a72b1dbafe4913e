"""Where the one-machine stack keeps what it has: `.cairn/`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Home:
    """The folder and the names in it."""

    root: Path

    @property
    def lock(self) -> Path:
        """Held by the supervisor for as long as it lives."""
        return self.root / "lock"

    @property
    def state(self) -> Path:
        """What runs, as JSON."""
        return self.root / "state.json"

    @property
    def ports(self) -> Path:
        """Which ports were chosen."""
        return self.root / "ports.json"

    @property
    def env(self) -> Path:
        """Secrets and the address, mode 600."""
        return self.root / "env"

    @property
    def logs(self) -> Path:
        """One file per process."""
        return self.root / "logs"

    def log(self, name: str) -> Path:
        """The log file of one process."""
        return self.logs / f"{name}.log"

    def data(self, store: str) -> Path:
        """The data folder of a store."""
        return self.root / store

    def create(self) -> None:
        """Make the folders. Others may pass through (PostgreSQL's system user must) but not list."""
        self.root.mkdir(mode=0o711, parents=True, exist_ok=True)
        self.logs.mkdir(mode=0o700, exist_ok=True)


def find(start: Path | None = None) -> Home:
    """CAIRN_HOME, else `.cairn` in this folder or a parent (as the `cairn` command looks), else a new one here."""
    chosen = os.environ.get("CAIRN_HOME")
    if chosen:
        return Home(Path(chosen).resolve())
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / ".cairn").is_dir():
            return Home(folder / ".cairn")
    return Home(here / ".cairn")
