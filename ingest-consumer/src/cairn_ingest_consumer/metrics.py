"""The metrics of batches and records; those of the engine are in `engine_metrics`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

Stage = Literal["read", "chunk", "embed", "write", "dead_letter"]
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class IngestMetrics:
    """What handlers report."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._stages = Histogram(
            "cairn_ingest_stage_seconds",
            "Time of one stage of one batch, and of one dead letter until it is acknowledged.",
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

    def settled(self, event_type: str, outcome: str) -> None:
        """A record's event has come to its end, now or before."""
        self._records.labels(event_type, outcome).inc()

    def became_searchable(self, age: float) -> None:
        """What was accepted `age` seconds ago can be found from now on."""
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


class RebuildMetrics:
    """What the rebuilding of vectors reports."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._missing = Gauge(
            "cairn_embedding_space_missing_chunks",
            "Chunks without a vector of this model, when last looked.",
            ["fingerprint"],
            registry=registry,
        )
        self._filled = Counter(
            "cairn_embedding_space_filled_chunks_total", "Chunks that were given a vector later.", registry=registry
        )
        self._truncated = Counter(
            "cairn_embedding_space_truncated_chunks_total",
            "Chunks of which a model with a shorter input saw the beginning only.",
            registry=registry,
        )
        self._switches = Counter(
            "cairn_embedding_space_switches_total", "Times that searches went over to another model.", registry=registry
        )

    def missing(self, fingerprint: str, chunks: int) -> None:
        """A space was looked through."""
        self._missing.labels(fingerprint).set(chunks)

    def filled(self, chunks: int) -> None:
        """A batch was filled."""
        self._filled.inc(chunks)

    def truncated(self, chunks: int) -> None:
        """Texts were cut by the embedder."""
        self._truncated.inc(chunks)

    def switched(self) -> None:
        """Searches use another model now."""
        self._switches.inc()


class ExpansionMetrics:
    """What the making of questions reports."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._made = Counter(
            "cairn_expansions_total",
            "Runbooks for which a model was asked for questions: kept, outdated, unusable, away.",
            ["outcome"],
            registry=registry,
        )
        self._pages = Gauge(
            "cairn_expansion_runbooks", "Runbooks by state: done, waiting, given_up.", ["state"], registry=registry
        )

    def made(self, outcome: Literal["kept", "outdated", "unusable", "away"]) -> None:
        """The model was asked."""
        self._made.labels(outcome).inc()

    def counted(self, states: dict[str, int]) -> None:
        """All were looked through."""
        for state, pages in states.items():
            self._pages.labels(state).set(pages)
