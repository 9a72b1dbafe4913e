"""The metrics of the consumer engine, and the crash points that lie in it."""

# ruff: noqa: ARG002 - an observer is told more than it counts
from __future__ import annotations

from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from cairn_ingest_consumer.metrics import SECONDS
from cairn_shared.clock import Clock
from cairn_shared.crashpoints import crash_at
from cairn_shared.kafka.errors import ConsumptionHalted
from cairn_shared.kafka.observer import EngineObserver
from cairn_shared.kafka.ownership import PartitionStatus
from cairn_shared.kafka.records import Partition

_WHERE = ("topic", "partition")


class EngineMetrics(EngineObserver):
    """What the engine reports, and the crash points that lie in it."""

    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self._clock = clock
        self._lag = Gauge("cairn_ingest_lag_records", "Records not yet done.", _WHERE, registry=registry)
        self._lag_seconds = Gauge(
            "cairn_ingest_lag_seconds", "Age of the oldest record in hand.", _WHERE, registry=registry
        )
        self._frontier_age = Gauge(
            "cairn_ingest_frontier_age_seconds",
            "Since the frontier moved, while there is lag.",
            _WHERE,
            registry=registry,
        )
        self._paused = Gauge("cairn_ingest_paused", "1 while fetching is paused.", _WHERE, registry=registry)
        self._halted = Gauge(
            "cairn_ingest_halted", "1 while consumption is stopped by too many dead letters.", _WHERE, registry=registry
        )
        self._batch = Histogram(
            "cairn_ingest_batch_records", "Records in a batch.", buckets=(1, 2, 5, 10, 20, 50, 100), registry=registry
        )
        self._batch_seconds = Histogram(
            "cairn_ingest_batch_seconds", "Time of a batch that succeeded.", buckets=SECONDS, registry=registry
        )
        self._retries = Counter("cairn_ingest_retries_total", "Batches tried again.", ["error"], registry=registry)
        self._rebalances = Counter("cairn_ingest_rebalances_total", "Rebalances.", ["event"], registry=registry)
        self._drain_timeouts = Counter(
            "cairn_ingest_drain_timeouts_total", "Partitions that did not drain in time.", registry=registry
        )
        self._commits = Counter("cairn_ingest_commits_total", "Offset commits.", ["result"], registry=registry)
        self._anew = Counter(
            "cairn_ingest_partitions_begun_anew_total", "Partitions whose offset did not exist.", registry=registry
        )
        self._halted_at: set[Partition] = set()

    @property
    def halted_partitions(self) -> set[Partition]:
        """Partitions on which consumption is halted, for readiness."""
        return self._halted_at

    def assigned(self, partitions: Sequence[Partition]) -> None:
        self._rebalances.labels("assigned").inc()

    def revoking(self, partitions: Sequence[Partition]) -> None:
        self._rebalances.labels("revoked").inc()

    def draining(self, partitions: Sequence[Partition]) -> None:
        crash_at("before_drain")

    def drained(self, partitions: Sequence[Partition], *, timed_out: Sequence[Partition]) -> None:
        self._drain_timeouts.inc(len(timed_out))
        crash_at("after_drain")

    def lost(self, partitions: Sequence[Partition]) -> None:
        self._rebalances.labels("lost").inc()

    def released(self, partitions: Sequence[Partition]) -> None:
        for partition in partitions:
            self._halted_at.discard(partition)
            for gauge in (self._lag, self._lag_seconds, self._frontier_age, self._paused, self._halted):
                gauge.remove(*_labels(partition))

    def began_anew(self, partition: Partition, reason: str) -> None:
        self._anew.inc()

    def committing(self, offsets: Mapping[Partition, int]) -> None:
        crash_at("before_commit")

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        self._commits.labels("ok").inc(len(offsets))
        crash_at("after_commit")

    def commit_failed(self, failures: Mapping[Partition, str]) -> None:
        for name in failures.values():
            self._commits.labels(name).inc()

    def polled(self, statuses: Sequence[PartitionStatus]) -> None:
        now_ms = self._clock.now().timestamp() * 1000
        for status in statuses:
            where = _labels(status.partition)
            lag = status.in_flight if status.lag is None else max(status.lag, status.in_flight)
            oldest = status.oldest_timestamp_ms
            self._lag.labels(*where).set(lag)
            self._lag_seconds.labels(*where).set(0 if oldest is None else max(0.0, (now_ms - oldest) / 1000))
            self._frontier_age.labels(*where).set(status.idle_for if lag else 0)
            self._paused.labels(*where).set(status.paused)
            self._halted.labels(*where).set(status.partition in self._halted_at)

    def batch(self, partition: Partition, size: int, seconds: float) -> None:
        self._batch.observe(size)
        self._batch_seconds.observe(seconds)

    def retrying(self, partition: Partition, attempt: int, delay: float, error: Exception) -> None:
        self._retries.labels(getattr(error, "dependency", type(error).__name__)).inc()

    def halted(self, partition: Partition, error: ConsumptionHalted) -> None:
        self._halted_at.add(partition)

    def resumed(self, partition: Partition) -> None:
        self._halted_at.discard(partition)


def _labels(partition: Partition) -> tuple[str, str]:
    return partition.topic, str(partition.number)
