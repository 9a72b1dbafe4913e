"""Accepting events: a 202 is answered only when something durable has them (invariant I1)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cairn_gateway.metrics import Metrics
from cairn_gateway.ports import Publisher, Receipts, Spool, Wake
from cairn_shared import context
from cairn_shared.clock import Clock
from cairn_shared.crashpoints import crash_at
from cairn_shared.errors import CairnError, TooLarge, TransientError
from cairn_shared.events import Event, arrival
from cairn_shared.logging import get_logger

log = get_logger(__name__)


@dataclass(frozen=True)
class AcceptPolicy:
    """How events are kept.

    `fallback`: Kafka has `kafka_timeout` seconds to acknowledge, then the inbox takes them; for `rest` seconds after a
    failure Kafka is not tried at all. `always`: the inbox first, where Kafka's log is not durable.
    """

    mode: Literal["fallback", "always"] = "fallback"
    kafka_timeout: float = 3.0
    rest: float = 5.0
    max_event_bytes: int = 4 * 1024 * 1024 - 64 * 1024


class Accepter:
    """The port of everything that takes events in: webhooks, `/events`, log intake."""

    def __init__(
        self,
        *,
        publisher: Publisher,
        inbox: Spool,
        receipts: Receipts,
        wake: Wake,
        clock: Clock,
        metrics: Metrics,
        policy: AcceptPolicy,
    ) -> None:
        self._publisher = publisher
        self._inbox = inbox
        self._receipts = receipts
        self._wake = wake
        self._clock = clock
        self._metrics = metrics
        self._policy = policy
        self._kafka_rests_until = 0.0

    async def accept(self, events: Sequence[Event]) -> list[uuid.UUID]:
        """Return the events' ids once every one of them is durable; repeating it is harmless.

        Raises:
            TooLarge: an event is larger than Kafka takes; none was accepted.
            Unavailable: neither Kafka nor MongoDB could take them all; send them again.
        """
        for event in events:
            if (size := len(event.encode())) > self._policy.max_event_bytes:
                limit = self._policy.max_event_bytes
                raise TooLarge(f"an event of {size} bytes; at most {limit} are allowed", field="body")
        left = events = await self._stamped(events)
        if self._policy.mode == "fallback" and self._clock.monotonic() >= self._kafka_rests_until:
            left = await self._to_kafka(events)
        if left:
            await self._inbox.add(left)
            self._metrics.accepted.labels("inbox").inc(len(left))
            self._wake()
        await self._receipts.remember({event.event_id: event.accepted_at for event in events})
        return [event.event_id for event in events]

    async def _stamped(self, events: Sequence[Event]) -> list[Event]:
        """With their place in the order of arrival: an event that is sent again keeps its first one."""
        known = await self._receipts.recall([event.event_id for event in events])
        return [
            event.model_copy(update={"arrived": arrival(known.get(event.event_id, event.accepted_at), place)})
            for place, event in enumerate(events)
        ]

    async def _to_kafka(self, events: Sequence[Event]) -> list[Event]:
        """Produce; the events that Kafka did not acknowledge in time."""
        trace = context.traceparent.get()
        results = await asyncio.gather(*(self._produce(event, trace) for event in events))
        sent = [event for event, failure in zip(events, results, strict=True) if failure is None]
        failures = [failure for failure in results if failure is not None]
        if failures:
            self._kafka_rests_until = self._clock.monotonic() + self._policy.rest
            log.warning("kafka did not take events, the inbox does", events=len(failures), reason=failures[0].detail)
        if sent:
            crash_at("after_produce")
            self._metrics.accepted.labels("kafka").inc(len(sent))
        return [event for event, failure in zip(events, results, strict=True) if failure is not None]

    async def _produce(self, event: Event, trace: str | None) -> CairnError | None:
        try:
            async with asyncio.timeout(self._policy.kafka_timeout):
                await self._publisher.publish(event.topic(), event.key(), event.encode(), event.headers(trace))
        except TransientError as exc:
            return exc
        except TimeoutError:
            return TransientError("kafka: no acknowledgement in time")
        return None
