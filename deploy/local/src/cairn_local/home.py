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
        """Make the folders, closed to others. Where PostgreSQL needs to pass, its store opens just that much."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.root.chmod(self.root.stat().st_mode & 0o711)  # the right to pass is kept: PostgreSQL may be running
        private_folder(self.logs)


def private_folder(folder: Path) -> None:
    """Make `folder`, or close one that an earlier version left open: what is in it is then closed too."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def private_file(path: Path) -> None:
    """Make an empty `path` that only its owner reads, or close the one that is there."""
    path.touch(mode=0o600)
    path.chmod(0o600)


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
