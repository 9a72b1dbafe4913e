"""What the answerer measures, in the registry that it is given."""

from __future__ import annotations

from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

CacheResult = Literal["hit", "miss", "stale", "corrupt", "stored", "joined", "followed", "unknown_epoch"]

_FAST = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0)


class Metrics:
    """Every metric of this service."""

    def __init__(self, registry: CollectorRegistry) -> None:
        # Answers by their mode: full, cached, excerpts, keyword, refused, unavailable.
        self.requests = Counter("cairn_requests_total", "Answers by mode.", ["outcome"], registry=registry)
        # Failed calls of the model by reason: every attempt that failed, answers that could not be used, and those
        # for which it was not even asked (circuit_open).
        self.llm_failures = Counter(
            "cairn_llm_failures_total", "Failed calls of the model.", ["reason"], registry=registry
        )
        # What the answer cache and the flights did: hit, miss, stale (a source changed), corrupt, stored,
        # joined (another request of this process was answering), followed (another replica was).
        self.cache_events = Counter(
            "cairn_cache_events_total", "Events of the answer cache.", ["result"], registry=registry
        )
        # What of the model's plans was left out: an unknown step, an unknown unit, a lead that says too much.
        self.dropped_claims = Counter(
            "cairn_claims_dropped_total", "Parts of plans left out.", ["fault"], registry=registry
        )
        # Questions that the gate refused, where a model may rewrite them: accepted (found by the rewriting), rejected
        # (that found nothing either), none (the model sees no page that fits), failed (no rewriting in time), hopeless
        # (too far from any page to ask the model).
        self.refinements = Counter(
            "cairn_refinements_total", "Refused questions and their rewriting.", ["outcome"], registry=registry
        )
        # Whole requests.
        self.request_seconds = Histogram(
            "cairn_request_seconds", "Duration of an answer.", ["outcome"], registry=registry, buckets=_FAST
        )
        # The search, network included.
        self.retrieval_seconds = Histogram(
            "cairn_retrieval_seconds", "Duration of retrieval.", registry=registry, buckets=_FAST
        )
        # The model, retries included.
        self.llm_seconds = Histogram(
            "cairn_llm_seconds", "Duration of the model's part.", registry=registry, buckets=_FAST
        )
        # 0 closed, 1 half-open, 2 open.
        self.circuit_state = Gauge("cairn_circuit_state", "0 closed, 1 half-open, 2 open.", registry=registry)

    def cache(self, result: CacheResult) -> None:
        """Count one event of the cache."""
        self.cache_events.labels(result).inc()
