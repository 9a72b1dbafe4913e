"""What the workers tell the owning thread."""

from __future__ import annotations

from dataclasses import dataclass

from cairn_shared.kafka.records import Partition


@dataclass(frozen=True)
class Finished:
    """Every effect of these records is durable."""

    partition: Partition
    epoch: int
    offsets: tuple[int, ...]


@dataclass(frozen=True)
class Held:
    """The partition's work waits (`held`) or goes on."""

    partition: Partition
    epoch: int
    held: bool


@dataclass(frozen=True)
class Alive:
    """Nothing finished, but work goes on."""

    partition: Partition
    epoch: int


@dataclass(frozen=True)
class Drained:
    """Nothing is in hand any more, and nothing new will begin."""

    partition: Partition
    epoch: int


@dataclass(frozen=True)
class Broke:
    """The handler raised something it must not raise: a defect, not an outage."""

    partition: Partition
    error: BaseException


@dataclass(frozen=True)
class Stop:
    """Drain everything, commit, leave the group."""


Mail = Finished | Held | Alive | Drained | Broke | Stop
