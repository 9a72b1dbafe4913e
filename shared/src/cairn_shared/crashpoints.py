"""Deaths on demand, to test that nothing is lost by them: `CAIRN_CRASHPOINT=name` or `name:3` (the third time).

Without the variable nothing happens. SIGKILL, not an exception: no handler runs, nothing is flushed.
"""

from __future__ import annotations

import os
import signal
from typing import Final, Literal, get_args

ConsumerPoint = Literal[
    "after_consume",
    "after_chunk",
    "after_embed",
    "in_transaction",
    "after_write",
    "before_dead_letter",
    "after_dead_letter",
    "before_commit",
    "after_commit",
    "before_drain",
    "after_drain",
]
GatewayPoint = Literal[
    "after_outbox",  # the runbook and its event are in MongoDB, the writer has no answer yet
    "before_publish",  # the relay has read the entry
    "after_publish",  # Kafka has acknowledged it, the entry is not marked
    "after_produce",  # Kafka has acknowledged an accepted event, 202 is not answered
]
CONSUMER_POINTS: Final[tuple[str, ...]] = get_args(ConsumerPoint)
GATEWAY_POINTS: Final[tuple[str, ...]] = get_args(GatewayPoint)
CRASHPOINTS: Final[tuple[str, ...]] = CONSUMER_POINTS + GATEWAY_POINTS


class Crasher:
    """Counts passes of one point and kills the process at the wanted one."""

    def __init__(self, setting: str) -> None:
        self._name, _, passes = setting.partition(":")
        self._left = int(passes or 1)
        if self._name not in CRASHPOINTS:
            raise ValueError(f"CAIRN_CRASHPOINT: no point {self._name!r}, there are {', '.join(CRASHPOINTS)}")

    def passing(self, name: str) -> None:
        """Die here if it is time."""
        if name != self._name:
            return
        self._left -= 1
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


def _from_environment() -> Crasher | None:
    setting = os.environ.get("CAIRN_CRASHPOINT")
    return Crasher(setting) if setting else None


_crasher = _from_environment()


def crash_at(name: ConsumerPoint | GatewayPoint) -> None:
    """A place where the process may be told to die."""
    if _crasher is not None:
        _crasher.passing(name)
