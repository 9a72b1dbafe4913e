"""`GroupConsumer` over confluent-kafka, and the only place that knows its types and error codes.

Offsets are resolved by us when partitions are assigned, so `auto.offset.reset` is always `error`: a position that
does not exist is a decision for the driver, never a silent jump.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from cairn_shared.errors import Unavailable
from cairn_shared.kafka.connection import connection
from cairn_shared.kafka.policy import ConsumerPolicy
from cairn_shared.kafka.ports import RebalanceListener
from cairn_shared.kafka.records import (
    EndOfLog,
    Fetched,
    FetchProblem,
    Headers,
    OffsetOutOfRange,
    Partition,
    Record,
    TimestampType,
)
from cairn_shared.logging import get_logger
from cairn_shared.settings import KafkaSettings

log = get_logger(__name__)

_TIMESTAMPS: dict[int, TimestampType] = {TIMESTAMP_CREATE_TIME: "create", TIMESTAMP_LOG_APPEND_TIME: "append"}
_OUT_OF_RANGE = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._NO_OFFSET}  # noqa: SLF001


def consumer_config(settings: KafkaSettings, group: str, client_id: str, policy: ConsumerPolicy) -> dict[str, Any]:
    """The client's settings, names as in librdkafka's CONFIGURATION.md."""
    config: dict[str, Any] = {
        **connection(settings),
        "group.id": group,
        "client.id": client_id,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
        "max.poll.interval.ms": int(policy.max_poll_interval * 1000),
        # Topics may be made after this process starts, and made anew by a broker that forgot them.
        "topic.metadata.refresh.interval.ms": 5000,
        "reconnect.backoff.max.ms": 1000,
        "socket.timeout.ms": 10000,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 200,
        # Bounded memory: what waits in the client is fetched again after a rebalance anyway.
        "queued.min.messages": 2000,
        "queued.max.messages.kbytes": 16384,
        "log_level": 2,
    }
    if policy.protocol == "consumer":
        return config | {"group.protocol": "consumer"}
    return config | {
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": int(policy.session_timeout * 1000),
        "heartbeat.interval.ms": int(policy.session_timeout * 1000 / 4),
    }


class ConfluentConsumer:
    """One member of a group. Make it, use it and close it on one thread."""

    def __init__(self, settings: KafkaSettings, group: str, client_id: str, policy: ConsumerPolicy) -> None:
        self._listener: RebalanceListener | None = None
        self._leave = policy.leave_group
        config = consumer_config(settings, group, client_id, policy)
        self._consumer = Consumer(config | {"on_commit": self._on_commit})

    def subscribe(self, topics: Sequence[str], listener: RebalanceListener) -> None:
        """Join the group; the listener is called inside `fetch` and `close`."""
        self._listener = listener
        self._consumer.subscribe(
            list(topics),
            on_assign=lambda _, partitions: listener.on_assign(_names(partitions)),
            on_revoke=lambda _, partitions: listener.on_revoke(_names(partitions)),
            on_lost=lambda _, partitions: listener.on_lost(_names(partitions)),
        )

    def fetch(self, limit: int, timeout: float) -> list[Fetched]:
        """`poll` returns with the first message at once; `consume` without waiting takes what lies behind it."""
        first = self._consumer.poll(timeout)
        if first is None:
            return []
        return [_fetched(message) for message in (first, *self._consumer.consume(limit, 0))]

    def pause(self, partitions: Iterable[Partition]) -> None:
        self._consumer.pause(_plain(partitions))

    def resume(self, partitions: Iterable[Partition]) -> None:
        self._consumer.resume(_plain(partitions))

    def commit_later(self, offsets: Mapping[Partition, int]) -> None:
        try:
            self._consumer.commit(offsets=_with_offsets(offsets), asynchronous=True)
        except KafkaException as exc:
            if self._listener:
                self._listener.on_commit(offsets, dict.fromkeys(offsets, exc.args[0].name()))

    def commit_now(self, offsets: Mapping[Partition, int]) -> dict[Partition, str]:
        try:
            results = self._consumer.commit(offsets=_with_offsets(offsets), asynchronous=False)
        except KafkaException as exc:
            return dict.fromkeys(offsets, exc.args[0].name())
        return {_name(result): result.error.name() for result in results or () if result.error is not None}

    def committed(self, partitions: Sequence[Partition], timeout: float) -> dict[Partition, int | None]:
        try:
            results = self._consumer.committed(_plain(partitions), timeout=timeout)
        except KafkaException as exc:
            raise Unavailable("kafka", f"kafka: {exc.args[0].name()}") from exc
        for result in results:
            if result.error is not None:
                raise Unavailable("kafka", f"kafka: {result.error.name()}")
        return {_name(result): result.offset if result.offset >= 0 else None for result in results}

    def assign(self, starts: Mapping[Partition, int | None]) -> None:
        if starts:
            self._consumer.incremental_assign(
                [
                    TopicPartition(p.topic, p.number, OFFSET_BEGINNING if offset is None else offset)
                    for p, offset in starts.items()
                ]
            )

    def unassign(self, partitions: Iterable[Partition]) -> None:
        if plain := _plain(partitions):
            self._consumer.incremental_unassign(plain)

    def log_range(self, partition: Partition, timeout: float) -> tuple[int, int] | None:
        try:
            return self._consumer.get_watermark_offsets(TopicPartition(*partition), timeout=timeout)
        except KafkaException:
            return None

    def high_watermark(self, partition: Partition) -> int | None:
        """As told by the last fetch: what ListOffsets says is too little on some brokers (design §12)."""
        try:
            watermarks = self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
        except KafkaException:
            return None
        return watermarks[1] if watermarks[1] >= 0 else None

    def close(self) -> None:
        if self._leave:
            self._consumer.close()
        else:
            # Dropped without `close`, the client ends without a word to the group.
            del self._consumer

    def _on_commit(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        if self._listener is None:
            return
        offsets = {_name(p): p.offset for p in partitions}
        causes = {_name(p): p.error or error for p in partitions}
        failed = {partition: cause.name() for partition, cause in causes.items() if cause is not None}
        self._listener.on_commit(offsets, failed)


def _fetched(message: Message) -> Fetched:
    error = message.error()
    if error is None:
        kind, timestamp = message.timestamp()
        return Record(
            topic=message.topic() or "",
            partition=message.partition() or 0,
            offset=message.offset() or 0,
            key=message.key(),
            value=message.value(),
            headers=_headers(message),
            timestamp_ms=timestamp if kind in _TIMESTAMPS else None,
            timestamp_type=_TIMESTAMPS.get(kind),
        )
    topic, number, offset = message.topic(), message.partition(), message.offset()
    if topic is not None and number is not None and number >= 0:
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
            return EndOfLog(Partition(topic, number), offset or 0)
        if error.code() in _OUT_OF_RANGE:
            return OffsetOutOfRange(Partition(topic, number))
    return FetchProblem(error.name(), error.str(), fatal=error.fatal())


def _headers(message: Message) -> Headers:
    """Header names are text in the client; one that is not must not stop the partition, so it is left out, loudly."""
    try:
        return cast("Headers", tuple(message.headers() or ()))
    except UnicodeDecodeError:
        log.exception("headers that are not UTF-8 were left out", topic=message.topic(), offset=message.offset())
        return ()


def _name(partition: TopicPartition) -> Partition:
    return Partition(partition.topic, partition.partition)


def _names(partitions: Iterable[TopicPartition]) -> list[Partition]:
    return [_name(partition) for partition in partitions]


def _plain(partitions: Iterable[Partition]) -> list[TopicPartition]:
    return [TopicPartition(p.topic, p.number) for p in partitions]


def _with_offsets(offsets: Mapping[Partition, int]) -> list[TopicPartition]:
    return [TopicPartition(p.topic, p.number, offset) for p, offset in offsets.items()]
