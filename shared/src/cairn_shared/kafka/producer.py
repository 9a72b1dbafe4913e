"""A producer for asyncio: `send` returns once the broker has acknowledged the record.

confluent-kafka's AIOProducer refuses headers and `produce_batch` drops them, so this is the plain Producer with
delivery callbacks resolved into futures and one thread that polls for them.

A broker that lost its log does not know our producer id. librdkafka then either meets a fatal error or asks for ever,
depending on what was under way, and never sends again. So a producer is replaced after a fatal error, and when records
time out while none came through: what was under way fails as `Unavailable`, and its callers try again.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cairn_shared.errors import CairnError, TooLarge, TransientError, Unavailable
from cairn_shared.kafka.connection import connection
from cairn_shared.logging import get_logger
from cairn_shared.settings import KafkaSettings

log = get_logger(__name__)

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Delivery:
    """Where the broker put a record."""

    topic: str
    partition: int
    offset: int


class EventProducer:
    """Idempotent, acks=all. Made by `open_producer`; safe to use from any task of its loop."""

    def __init__(self, settings: KafkaSettings, client_id: str, max_message_bytes: int | None = None) -> None:
        self._max_bytes = max_message_bytes or settings.kafka_max_message_bytes
        timeout_ms = int(settings.kafka_delivery_timeout * 1000)
        self._config: dict[str, Any] = {
            **connection(settings),
            "client.id": client_id,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 2,
            "compression.type": "lz4",
            "delivery.timeout.ms": timeout_ms,
            "request.timeout.ms": min(timeout_ms, 5000),
            "message.max.bytes": self._max_bytes + 64 * 1024,
            "reconnect.backoff.max.ms": 1000,
            "log_level": 2,
            "error_cb": _log_error,
        }
        self._patience = settings.kafka_delivery_timeout
        self._producer = Producer(self._config)
        self._last_good = time.monotonic()
        self._stuck = False
        self._waiting: set[asyncio.Future[Delivery]] = set()
        self._replacing = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="kafka-producer", daemon=True)
        self._thread.start()

    async def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> Delivery:
        """Produce one record and wait for its acknowledgement.

        Raises:
            TooLarge: key and value are over the limit.
            Unavailable: the broker did not acknowledge within the delivery timeout, or the queue is full.
        """
        size = len(key or b"") + len(value or b"")
        if size > self._max_bytes:
            raise TooLarge(f"the record has {size} bytes, at most {self._max_bytes} are allowed", field="body")
        future: asyncio.Future[Delivery] = self._loop.create_future()

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._judge(error)
            self._loop.call_soon_threadsafe(_resolve, future, error, message)

        where: dict[str, Any] = {} if partition is None else {"partition": partition}
        try:
            with self._replacing:
                self._producer.produce(
                    topic, value=value, key=key, headers=list(headers), on_delivery=delivered, **where
                )
                self._waiting.add(future)
        except BufferError as exc:
            raise Unavailable("kafka", "kafka: the producer's queue is full") from exc
        except KafkaException as exc:
            raise _translate(exc.args[0]) from exc
        try:
            return await future
        finally:
            self._waiting.discard(future)

    def ping(self) -> None:
        """Raise unless the broker answers a metadata request; blocks, so call it in a thread."""
        try:
            self._producer.list_topics(timeout=2)
        except KafkaException as exc:
            raise _translate(exc.args[0]) from exc

    def _poll(self) -> None:
        while not self._stop.is_set():
            try:
                self._producer.poll(0.1)
            except KafkaException as exc:
                self._stuck = self._stuck or exc.args[0].fatal()
            if self._stuck:
                self._replace()

    def _judge(self, error: KafkaError | None) -> None:
        """Called for each delivery report, on the polling thread."""
        now = time.monotonic()
        if error is None:
            self._last_good = now
        elif error.code() == KafkaError._MSG_TIMED_OUT:  # noqa: SLF001
            self._stuck = now - self._last_good >= self._patience

    def _replace(self) -> None:
        with self._replacing:
            self._producer = Producer(self._config)
            self._last_good, self._stuck = time.monotonic(), False
            abandoned = list(self._waiting)
        log.warning("the producer could not send any more and was replaced", under_way=len(abandoned))
        self._loop.call_soon_threadsafe(_abandon, abandoned)

    def close(self, timeout: float) -> int:
        """Wait up to `timeout` seconds for open deliveries; returns how many remain. Blocks."""
        try:
            remaining = self._producer.flush(timeout)
        except KafkaException:
            remaining = len(self._producer)
        self._stop.set()
        self._thread.join(1)
        return remaining


@asynccontextmanager
async def open_producer(settings: KafkaSettings, client_id: str, **options: Any) -> AsyncIterator[EventProducer]:
    """A producer for the lifespan. It connects by itself, whenever the broker is there."""
    producer = EventProducer(settings, client_id, **options)
    try:
        yield producer
    finally:
        await asyncio.to_thread(producer.close, settings.kafka_delivery_timeout)


def _resolve(future: asyncio.Future[Delivery], error: KafkaError | None, message: Message) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(_translate(error))
        return
    future.set_result(Delivery(message.topic() or "", message.partition() or 0, message.offset() or 0))


def _abandon(futures: list[asyncio.Future[Delivery]]) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(Unavailable("kafka", "kafka: the broker forgot this producer"))


def _log_error(error: KafkaError) -> None:
    if error.code() != KafkaError._TRANSPORT:  # noqa: SLF001 - one a broker and a second; _ALL_BROKERS_DOWN says it
        log.warning("kafka", error=error.name(), fatal=error.fatal())


def _translate(error: KafkaError) -> CairnError:
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return TooLarge("the broker refuses a record of this size", field="body")
    if error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._UNKNOWN_TOPIC):  # noqa: SLF001
        return TransientError(f"kafka: {error.name()}")
    return Unavailable("kafka", f"kafka: {error.name()}")
