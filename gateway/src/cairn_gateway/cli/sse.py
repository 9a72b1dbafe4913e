"""Server-sent events (WHATWG HTML, "Event stream interpretation"): the part that `/ask` uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class ServerEvent:
    """One event: its name (`message` when none was given) and its data."""

    name: str
    data: str


def parse(lines: Iterable[str]) -> Iterator[ServerEvent]:
    """Events of the lines (without line ends). Comments, ids and retry times are skipped."""
    name = ""
    data: list[str] = []
    for line in lines:
        if not line:
            if data:
                yield ServerEvent(name or "message", "\n".join(data))
            name, data = "", []
            continue
        member, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if member == "event":
            name = value
        elif member == "data":
            data.append(value)
