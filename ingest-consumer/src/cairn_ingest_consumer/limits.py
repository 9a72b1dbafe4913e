"""Too many dead letters mean a bad release or a bad producer, not bad records: stop before the topic is emptied."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from cairn_shared.kafka.errors import ConsumptionHalted
from cairn_shared.kafka.records import Partition


@dataclass(frozen=True)
class PoisonPolicy:
    """When to stop, per partition.

    Attributes:
        max_run: dead letters one after another.
        max_share: share of dead letters among the last `window` records, once that many were seen.
        window: records that the share is taken of.
    """

    max_run: int = 25
    max_share: float = 0.5
    window: int = 100


class PoisonLimit:
    """Counts how records end. Pure; forgets when a person releases a partition, or the process ends."""

    def __init__(self, policy: PoisonPolicy = PoisonPolicy()) -> None:
        self._policy = policy
        self._runs: dict[Partition, int] = {}
        self._recent: dict[Partition, deque[bool]] = {}

    def check(self, partition: Partition) -> None:
        """Ask before a dead letter is sent.

        Raises:
            ConsumptionHalted: it would be one too many.
        """
        recent = self._window(partition)
        if self._runs.get(partition, 0) >= self._policy.max_run:
            raise ConsumptionHalted(f"{partition}: {self._policy.max_run} records in a row failed for good")
        if len(recent) == recent.maxlen and sum(recent) / len(recent) > self._policy.max_share:
            raise ConsumptionHalted(f"{partition}: {sum(recent)} of the last {len(recent)} records failed for good")

    def died(self, partition: Partition) -> None:
        """Count a dead letter that was acknowledged."""
        self._runs[partition] = self._runs.get(partition, 0) + 1
        self._window(partition).append(True)

    def passed(self, partition: Partition, records: int) -> None:
        """Count records that were processed."""
        if records:
            self._runs[partition] = 0
            self._window(partition).extend([False] * records)

    def forget(self, partition: Partition) -> None:
        """Begin anew: a person has looked and wants to go on."""
        self._runs.pop(partition, None)
        self._recent.pop(partition, None)

    def _window(self, partition: Partition) -> deque[bool]:
        return self._recent.setdefault(partition, deque(maxlen=self._policy.window))
