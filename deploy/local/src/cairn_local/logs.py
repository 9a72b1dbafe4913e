"""Log files: the last lines, following them, and keeping them from growing without end."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

LIMIT_BYTES = 20 * 1024 * 1024
TAIL_BYTES = 256 * 1024


def tail(path: Path, lines: int, start: int = 0) -> list[str]:
    """The last `lines` lines of a file from byte `start` on, at most 256 KiB; none where there is no file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(start if start <= size else 0, size - TAIL_BYTES))
            found = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return found[-lines:] if lines > 0 else []


def reasons(lines: Sequence[str], most: int = 3) -> list[str]:
    """Why a process ended, from its last log lines: errors, else warnings, else what was not written as a log line.

    A traceback is given by its last line, which holds the exception.
    """
    by_level: dict[str, list[str]] = {"error": [], "warning": [], "plain": []}
    for line in lines:
        try:
            record = json.loads(line)
            level, text = str(record["level"]), str(record["event"])
        except (ValueError, KeyError, TypeError):
            if line.strip() and not line.startswith((" ", "Traceback", "During handling", "The above exception")):
                by_level["plain"].append(line)
            continue
        why = record.get("reason") or str(record.get("exception", "")).strip().rpartition("\n")[2]
        by_level.setdefault({"critical": "error"}.get(level, level), []).append(f"{text}: {why}" if why else text)
    found = [*by_level["plain"], *by_level["error"]] or by_level["warning"]
    return found[-most:] or ["it was killed, or ended without a word"]


def rotate(path: Path, limit: int = LIMIT_BYTES) -> bool:
    """Move a log over `limit` bytes aside, to `NAME.1`. Its writer appends, so it goes on in the emptied file."""
    if not path.exists() or path.stat().st_size <= limit:
        return False
    shutil.copyfile(path, path.with_name(f"{path.name}.1"))
    with path.open("r+b") as file:
        file.truncate(0)
    return True


def follow(
    paths: Sequence[Path], sleep: Callable[[float], None] = time.sleep, interval: float = 0.3
) -> Iterator[tuple[Path, str]]:
    """Lines that are added to the files from now on, for ever; files may appear and shrink meanwhile."""
    positions = {path: path.stat().st_size if path.exists() else 0 for path in paths}
    rest = dict.fromkeys(paths, b"")
    while True:
        for path in paths:
            if not path.exists():
                continue
            size = path.stat().st_size
            if size < positions[path]:
                positions[path], rest[path] = 0, b""
            if size == positions[path]:
                continue
            with path.open("rb") as file:
                file.seek(positions[path])
                added = file.read()
            positions[path] += len(added)
            *complete, rest[path] = (rest[path] + added).split(b"\n")
            for line in complete:
                yield path, line.decode(errors="replace")
        sleep(interval)
