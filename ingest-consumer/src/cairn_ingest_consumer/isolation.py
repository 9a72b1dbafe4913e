"""One bad record harms one record (invariant I5): finds the culprits of a batch by halving it.

A permanent error is bisected at once. An error of an unknown kind is first taken for an outage that nobody
translated: the batch is tried again a few times, with the engine's back-off between, before it is bisected; and
when then both halves fail at once, a few times more. A transient error always goes up unchanged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from cairn_ingest_consumer.errors import Rejected
from cairn_ingest_consumer.model import Delivery
from cairn_shared.errors import PermanentError, TransientError
from cairn_shared.kafka.dead_letters import FailureClass
from cairn_shared.kafka.errors import ConsumptionHalted
from cairn_shared.kafka.records import Partition
from cairn_shared.logging import get_logger

log = get_logger(__name__)

Handle = Callable[[Sequence[Delivery]], Awaitable[None]]


@dataclass(frozen=True)
class IsolationPolicy:
    """How long an unknown error counts as an outage.

    Attributes:
        unknown_tries: tries of the whole batch before it is bisected.
        outage_tries: tries in all until which two failing halves still count as an outage.
    """

    unknown_tries: int = 3
    outage_tries: int = 6


@dataclass(frozen=True)
class Failed:
    """A delivery that cannot be processed."""

    delivery: Delivery
    error: Exception
    kind: FailureClass
    tries: int

    @property
    def stage(self) -> str:
        """Where it failed."""
        return self.error.stage if isinstance(self.error, PermanentError) else "unknown"


class Isolation:
    """Runs batches through a handler and gives back those that cannot be processed; the others are done."""

    def __init__(self, policy: IsolationPolicy = IsolationPolicy()) -> None:
        self._policy = policy
        self._tries: dict[Partition, tuple[int, int]] = {}

    async def run(self, handle: Handle, deliveries: Sequence[Delivery]) -> list[Failed]:
        """Process `deliveries`, all of one partition.

        Raises:
            TransientError: nothing is known to be wrong with the records; try the same batch again later.
            ConsumptionHalted: as the handler says.
        """
        error = await _error_of(handle, deliveries)
        if error is not None and _is_unknown(error):
            failed = await self._after_unknown(handle, deliveries, error)
        else:
            failed = await self._after(handle, deliveries, error)
        self._tries.pop(deliveries[0].record.home, None)
        return failed

    async def _after(self, handle: Handle, deliveries: Sequence[Delivery], error: Exception | None) -> list[Failed]:
        """What is to be done when `deliveries` ended with `error`."""
        if error is None:
            return []
        if isinstance(error, Rejected):
            failed = [Failed(delivery, culprit, "permanent", 1) for delivery, culprit in error.culprits.values()]
            rest = [d for d in deliveries if d.record.offset not in error.culprits]
            return failed + await self._attempt(handle, rest)
        if len(deliveries) == 1:
            return await self._verdict(handle, deliveries[0], error)
        left, right = _halves(deliveries)
        return await self._attempt(handle, left) + await self._attempt(handle, right)

    async def _attempt(self, handle: Handle, deliveries: Sequence[Delivery]) -> list[Failed]:
        if not deliveries:
            return []
        return await self._after(handle, deliveries, await _error_of(handle, deliveries))

    async def _verdict(self, handle: Handle, delivery: Delivery, error: Exception) -> list[Failed]:
        """A permanent error convicts; an unknown one gets one more try alone."""
        if not _is_unknown(error):
            return [Failed(delivery, error, "permanent", 1)]
        again = await _error_of(handle, [delivery])
        if again is None:
            return []
        return [Failed(delivery, again, "unknown" if _is_unknown(again) else "permanent", 2)]

    async def _after_unknown(self, handle: Handle, deliveries: Sequence[Delivery], error: Exception) -> list[Failed]:
        tries = self._count(deliveries[0])
        log.warning("unknown error", error=type(error).__name__, tries=tries, records=len(deliveries), exc_info=error)
        if tries < self._policy.unknown_tries:
            raise TransientError(f"unknown error: {type(error).__name__}") from error
        if len(deliveries) == 1 or tries >= self._policy.outage_tries:
            return await self._after(handle, deliveries, error)
        halves = _halves(deliveries)
        errors = [await _error_of(handle, half) for half in halves]
        if all(half_error is not None and _is_unknown(half_error) for half_error in errors):
            raise TransientError(f"unknown error in both halves: {type(error).__name__}") from error
        failed: list[Failed] = []
        for half, half_error in zip(halves, errors, strict=True):
            failed += await self._after(handle, half, half_error)
        return failed

    def _count(self, first: Delivery) -> int:
        """Tries of the batch that begins with `first`, this one included."""
        home, offset = first.record.home, first.record.offset
        known, tries = self._tries.get(home, (offset, 0))
        tries = tries + 1 if known == offset else 1
        self._tries[home] = (offset, tries)
        return tries


async def _error_of(handle: Handle, deliveries: Sequence[Delivery]) -> Exception | None:
    """The error that the handler raises; those that are not about records go up."""
    try:
        await handle(deliveries)
    except (TransientError, ConsumptionHalted):
        raise
    except Exception as exc:  # noqa: BLE001 - judged by the caller
        return exc
    return None


def _is_unknown(error: Exception) -> bool:
    return not isinstance(error, (PermanentError, Rejected))


def _halves(deliveries: Sequence[Delivery]) -> tuple[Sequence[Delivery], Sequence[Delivery]]:
    middle = len(deliveries) // 2
    return deliveries[:middle], deliveries[middle:]
