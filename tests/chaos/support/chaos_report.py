"""The table of a run: what was injected, and what held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass
class Table:
    """A fault held when the round in which it was injected ended with index, dead letters and offsets as they must
    be, within the time allowed, and nothing wrong was seen on the way."""

    injected: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)

    def round(self, faults: Mapping[str, int], *, held: bool) -> None:
        self.injected.update(faults)
        if held:
            self.held.update(faults)

    def lines(self, also: Iterable[str] = ()) -> Iterable[str]:
        """Markdown; `also` are faults to name although they never came."""
        yield "| fault | injected | held |"
        yield "|---|---|---|"
        for name in sorted({*self.injected, *also}):
            yield f"| {name} | {self.injected[name]} | {self.held[name]} |"
        yield f"| **all** | **{self.injected.total()}** | **{self.held.total()}** |"
