"""What is sent, and where a backfill that was interrupted goes on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Item:
    """One payload, the type of its webhook, and where to go on once it is sent."""

    event: str
    payload: Json
    cursor: Json = field(default_factory=dict)


Items = AsyncIterator[Item]


def state_folder(environ: Mapping[str, str]) -> Path:
    """Where cursors are kept (XDG Base Directory Specification)."""
    base = environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "cairn" / "backfill"


class Cursor:
    """A place in one job, in a file of its own; it goes when the job is done."""

    def __init__(self, folder: Path, *job: str) -> None:
        digest = hashlib.sha256("\0".join(job).encode()).hexdigest()[:16]
        self._path = folder / f"{digest}.json"

    def load(self) -> Json:
        """Where the job goes on; empty at the beginning, or when the file cannot be understood."""
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def save(self, place: Json) -> None:
        """Keep the place, whole or not at all."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(place), encoding="utf-8")
        draft.replace(self._path)

    def clear(self) -> None:
        """The job is done."""
        self._path.unlink(missing_ok=True)
