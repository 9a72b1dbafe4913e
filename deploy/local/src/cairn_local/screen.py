"""What the user sees: progress lines while the stack starts, and the table of `status`."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cairn_local.state import ProcessState, StackState

COLOURS = {"ready": "green", "starting": "yellow", "restarting": "yellow", "failed": "red", "stopping": "yellow"}


@dataclass
class Progress:
    """Prints one line for every process that becomes ready or is started again."""

    console: Console
    began: float = field(default_factory=time.time)
    _seen: dict[str, tuple[str, int]] = field(default_factory=dict)

    def __call__(self, state: StackState) -> None:
        """Print what is new in `state`."""
        for process in state.processes.values():
            now = (process.status, process.restarts)
            if self._seen.get(process.name) == now:
                continue
            self._seen[process.name] = now
            if process.status == "ready":
                seconds = time.time() - self.began
                self.console.print(
                    f"  [green]ready[/]       {process.name:<20} {place(process.address):<18} {seconds:5.1f} s",
                    highlight=False,
                )
            elif process.status in ("restarting", "failed"):
                self.console.print(
                    f"  [yellow]{process.status:<11}[/] {process.name:<20} {escape(process.detail)}", highlight=False
                )


def table(state: StackState, now: float) -> Table:
    """The processes of the stack."""
    shown = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("process", "state", "pid", "address", "since", "restarts"):
        shown.add_column(column, no_wrap=True)
    shown.add_column("detail", overflow="fold")
    for process in state.processes.values():
        colour = COLOURS.get(process.status, "white")
        shown.add_row(
            process.name,
            f"[{colour}]{process.status}[/]",
            str(process.pid or ""),
            place(process.address),
            age(now - process.since) if process.since else "",
            str(process.restarts),
            escape(process.detail),
        )
    return shown


def place(address: str) -> str:
    """Host and port of an address."""
    return address.rpartition("://")[2].partition("/")[0]


def age(seconds: float) -> str:
    """A duration in its largest unit: 42 s, 3 min, 5 h, 2 d."""
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{int(seconds / size)} {unit}"
    return f"{int(seconds / 86400)} d"


def problems(state: StackState) -> list[ProcessState]:
    """The processes that do not answer now."""
    return [process for process in state.processes.values() if process.status != "ready"]
