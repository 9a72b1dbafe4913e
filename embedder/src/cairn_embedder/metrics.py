"""Every metric of the embedder."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


class EmbedderMetrics:
    """Made once per process, on that process's registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.texts = Counter("cairn_embedder_texts_total", "Texts asked for.", ["kind"], registry=registry)
        self.refused = Counter(
            "cairn_embedder_refused_total",
            "Texts refused: too-long, blank, not-unicode, failed (the model cannot embed it), queue-full.",
            ["reason"],
            registry=registry,
        )
        self.truncated = Counter("cairn_embedder_truncated_total", "Texts cut because asked to.", registry=registry)
        self.cache = Counter(
            "cairn_embedder_cache_total", "Vectors looked up: hit, miss, error.", ["result"], registry=registry
        )
        self.waiting = Gauge(
            "cairn_embedder_queue_texts", "Texts that wait for the model.", ["kind"], registry=registry
        )
        self.wait = Histogram(
            "cairn_embedder_wait_seconds",
            "From queued to taken into a batch.",
            ["kind"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.batch_texts = Histogram(
            "cairn_embedder_batch_texts", "Texts in one batch.", buckets=_COUNTS, registry=registry
        )
        self.batch_tokens = Histogram(
            "cairn_embedder_batch_tokens", "Tokens in one batch, padding included.", buckets=_TOKENS, registry=registry
        )
        self.encode = Histogram(
            "cairn_embedder_encode_seconds", "One batch through the model.", buckets=_SECONDS, registry=registry
        )
        self.batch_failures = Counter(
            "cairn_embedder_batch_failures_total", "Batches that raised and were halved.", registry=registry
        )
        self.model = Gauge(
            "cairn_embedder_model_info",
            "1 for the model that is loaded.",
            ["name", "fingerprint", "dimension"],
            registry=registry,
        )
