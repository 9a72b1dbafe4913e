"""One batch's story, top to bottom: count the attempt, decode, hand over, dead-letter what cannot be, forget."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from cairn_ingest_consumer.isolation import Failed, Isolation
from cairn_ingest_consumer.limits import PoisonLimit
from cairn_ingest_consumer.metrics import IngestMetrics
from cairn_ingest_consumer.model import Delivery
from cairn_ingest_consumer.ports import Attempts, DeadLetters, EventHandler, Ledger
from cairn_shared.clock import Clock
from cairn_shared.crashpoints import crash_at
from cairn_shared.errors import PermanentError, TransientError
from cairn_shared.events import PAYLOADS, decode
from cairn_shared.kafka.dead_letters import FailureClass, failure_of
from cairn_shared.kafka.records import Record
from cairn_shared.logging import get_logger

log = get_logger(__name__)


@dataclass(frozen=True)
class CrashPolicy:
    """When a record is suspected of killing the process.

    Attributes:
        suspect_after: attempts without an end after which a batch is processed one record at a time.
        convict_after: attempts of a record, the last of them alone, after which it is dead-lettered untried.
    """

    suspect_after: int = 3
    convict_after: int = 6


class Killed(PermanentError):
    """The process died every time that it had this record in hand."""


class Ingest:
    """The consumer's `BatchHandler`: every record ends in its handler's effect or in the dead letter topic."""

    def __init__(
        self,
        handlers: Mapping[str, EventHandler],
        *,
        attempts: Attempts,
        dead_letters: DeadLetters,
        ledger: Ledger,
        metrics: IngestMetrics,
        clock: Clock,
        isolation: Isolation,
        limit: PoisonLimit,
        crashes: CrashPolicy = CrashPolicy(),
    ) -> None:
        self._handlers = handlers
        self._attempts = attempts
        self._dead_letters = dead_letters
        self._ledger = ledger
        self._metrics = metrics
        self._clock = clock
        self._isolation = isolation
        self._limit = limit
        self._crashes = crashes

    async def handle(self, records: Sequence[Record]) -> None:
        """As `cairn_shared.kafka.ports.BatchHandler.handle`."""
        crash_at("after_consume")
        try:
            counts = await self._attempts.begin(records)
            if max(counts.values()) > self._crashes.suspect_after and len(records) > 1:
                log.warning("one record at a time: the process died with this batch", offset=records[0].offset)
                await self._attempts.forgive(records)
                for record in records:
                    await self._alone(record, (await self._attempts.begin([record]))[record.offset])
            elif len(records) == 1:
                await self._alone(records[0], counts[records[0].offset])
            else:
                await self._process(records)
                await self._attempts.end(records)
        except (TransientError, asyncio.CancelledError):
            # Neither an outage nor a hand-over is the records' fault.
            await self._forgive(records)
            raise

    async def _alone(self, record: Record, attempts: int) -> None:
        if attempts > self._crashes.convict_after:
            error = Killed(f"the process ended {attempts - 1} times with this record in hand", stage="unknown")
            await self._bury(record, error, "crash", attempts - 1)
        else:
            await self._process([record])
        await self._attempts.end([record])

    async def _process(self, records: Sequence[Record]) -> None:
        failed: list[tuple[Record, Exception, FailureClass, int]] = []
        groups: dict[int, tuple[EventHandler, list[Delivery]]] = {}
        for record in records:
            try:
                delivery, handler = self._open(record)
            except PermanentError as exc:
                failed.append((record, exc, "permanent", 1))
            else:
                groups.setdefault(id(handler), (handler, []))[1].append(delivery)
        for handler, deliveries in groups.values():
            failed += [_of(failure) for failure in await self._isolation.run(handler.handle, deliveries)]
        self._limit.passed(records[0].home, len(records) - len(failed))
        for record, error, kind, tries in sorted(failed, key=lambda entry: entry[0].offset):
            await self._bury(record, error, kind, tries)

    def _open(self, record: Record) -> tuple[Delivery, EventHandler]:
        event = decode(record.value)
        handler = self._handlers.get(event.type)
        if handler is None:
            raise PermanentError(f"type: nothing here handles {event.type}", stage="validate")
        return Delivery(record, event), handler

    async def _bury(self, record: Record, error: Exception, kind: FailureClass, tries: int) -> None:
        """Dead-letter one record; returns when that is acknowledged and in the ledger."""
        self._limit.check(record.home)
        now = self._clock.now()
        stage = error.stage if isinstance(error, PermanentError) else "unknown"
        failure = failure_of(error, stage=stage, kind=kind, attempts=tries, first=now, last=now)
        crash_at("before_dead_letter")
        try:
            with self._metrics.stage("dead_letter"):
                await self._dead_letters.send(record, failure)
        except TransientError:
            self._metrics.dead_letter_failed()
            raise
        crash_at("after_dead_letter")
        self._limit.died(record.home)
        event_type, event_id = _identity(record)
        await self._ledger.dead(record, event_id, f"{stage}: {error}")
        self._metrics.dead_letter(record.topic, kind, stage, event_type)
        log.error(
            "dead letter",
            partition=str(record.home),
            offset=record.offset,
            event_id=event_id,
            stage=stage,
            kind=kind,
            reason=str(error),
        )

    async def _forgive(self, records: Sequence[Record]) -> None:
        """Best effort: a store that is away keeps a count that is one too high, and three more are allowed."""
        try:
            await self._attempts.forgive(records)
        except TransientError as exc:
            log.warning("attempts not taken back", error=exc.detail)


def _of(failure: Failed) -> tuple[Record, Exception, FailureClass, int]:
    return failure.delivery.record, failure.error, failure.kind, failure.tries


def _identity(record: Record) -> tuple[str, uuid.UUID | None]:
    """Type and id of the event as far as a record that cannot be processed tells them."""
    event_type = (record.header("event-type") or b"").decode("utf-8", "replace")
    if event_type not in PAYLOADS:
        event_type = "unknown"
    for candidate in (_id_header, _id_in_value):
        try:
            return event_type, candidate(record)
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
    return event_type, None


def _id_header(record: Record) -> uuid.UUID:
    return uuid.UUID((record.header("event-id") or b"").decode("ascii"))


def _id_in_value(record: Record) -> uuid.UUID:
    return uuid.UUID(orjson.loads(record.value or b"")["event_id"])
