"""The metrics of batches and records; those of the engine are in `engine_metrics`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Histogram

Stage = Literal["read", "chunk", "embed", "write"]
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class IngestMetrics:
    """What handlers report."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._stages = Histogram(
            "cairn_ingest_stage_seconds",
            "Time of one stage of one batch.",
            ["stage"],
            buckets=SECONDS,
            registry=registry,
        )
        self._records = Counter(
            "cairn_ingest_records_total", "Records by how they ended.", ["type", "outcome"], registry=registry
        )
        self._freshness = Histogram(
            "cairn_ingest_freshness_seconds",
            "From accepted to searchable.",
            buckets=(0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 30, 60, 300, 1800, 7200, 86400),
            registry=registry,
        )
        self._chunks = Counter(
            "cairn_ingest_chunks_total", "Chunks by where their vector came from.", ["vector"], registry=registry
        )
        self._dead = Counter(
            "cairn_ingest_dead_letters_total",
            "Acknowledged dead letters.",
            ["topic", "class", "stage"],
            registry=registry,
        )
        self._dead_failed = Counter(
            "cairn_ingest_dead_letter_failures_total", "Dead letters that were not acknowledged.", registry=registry
        )

    @contextmanager
    def stage(self, name: Stage) -> Iterator[None]:
        """Time a stage that succeeds."""
        started = time.perf_counter()
        yield
        self._stages.labels(name).observe(time.perf_counter() - started)

    def settled(self, event_type: str, outcome: str, age: float) -> None:
        """An event ended, `age` seconds after it was accepted."""
        self._records.labels(event_type, outcome).inc()
        if outcome == "searchable":
            self._freshness.observe(max(0.0, age))

    def chunks(self, *, reused: int, embedded: int) -> None:
        """Chunks of one batch."""
        self._chunks.labels("reused").inc(reused)
        self._chunks.labels("embedded").inc(embedded)

    def dead_letter(self, topic: str, kind: str, stage: str, event_type: str) -> None:
        """A dead letter was acknowledged."""
        self._dead.labels(topic, kind, stage).inc()
        self._records.labels(event_type, "dead").inc()

    def dead_letter_failed(self) -> None:
        """A dead letter was not acknowledged."""
        self._dead_failed.inc()
