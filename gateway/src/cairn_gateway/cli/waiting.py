"""Waiting until events are searchable."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cairn_gateway.cli.client import Cairn, as_object

STATES_PATH = "/ingest/states"
FORGOTTEN = "forgotten"
SETTLED = frozenset({"searchable", "superseded", "dead", FORGOTTEN})


@dataclass(frozen=True)
class WaitPolicy:
    """Seconds between looks grow from `first` to `longest`; after `limit` without progress it gives up."""

    limit: float = 300.0
    first: float = 0.1
    growth: float = 1.5
    longest: float = 2.0
    batch: int = 200


@dataclass(frozen=True)
class Waited:
    """How it ended: event ids that are dead, and those still on their way; `searchable` counts the others.

    An event that nobody knows any more was settled so long ago that its record was dropped.
    """

    searchable: int
    dead: tuple[str, ...]
    pending: tuple[str, ...]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self) | {"seconds": round(self.seconds, 3)}

    @property
    def complete(self) -> bool:
        """Everything is searchable."""
        return not self.dead and not self.pending


def wait_searchable(
    cairn: Cairn,
    event_ids: Sequence[str],
    *,
    policy: WaitPolicy = WaitPolicy(),
    advance: Callable[[int], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> Waited:
    """Ask for the events' states until each has reached its end, or nothing more happens."""
    started = monotonic()
    pending = list(dict.fromkeys(event_ids))
    dead: list[str] = []
    moved = started
    interval = policy.first
    while pending:
        left: list[str] = []
        for start in range(0, len(pending), policy.batch):
            part = pending[start : start + policy.batch]
            states = _states(cairn, part, patience=policy.limit)
            dead += [event_id for event_id in part if states.get(event_id) == "dead"]
            left += [event_id for event_id in part if states.get(event_id, FORGOTTEN) not in SETTLED]
        settled = len(pending) - len(left)
        advance(settled)
        pending = left
        now = monotonic()
        moved = now if settled else moved
        if not pending or now - moved + interval > policy.limit:
            break
        sleep(interval)
        interval = policy.first if settled else min(policy.longest, interval * policy.growth)
    searchable = len(dict.fromkeys(event_ids)) - len(pending) - len(dead)
    return Waited(searchable, tuple(dead), tuple(pending), monotonic() - started)


def _states(cairn: Cairn, event_ids: Sequence[str], *, patience: float) -> dict[str, str]:
    answer = as_object(
        cairn.request("POST", STATES_PATH, body={"event_ids": list(event_ids)}, timeout=15.0, patience=patience)
    )
    return {event_id: str(state["state"]) for event_id, state in answer["states"].items()}
