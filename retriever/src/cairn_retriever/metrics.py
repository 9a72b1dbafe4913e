"""What the retriever measures, in the registry that it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram

from cairn_shared.api.search import SearchRequest

_SECONDS = (0.002, 0.005, 0.01, 0.015, 0.025, 0.04, 0.06, 0.1, 0.2, 0.5, 1.0, 2.5)


class Metrics:
    """Every metric of this service."""

    def __init__(self, registry: CollectorRegistry) -> None:
        # Searches by mode, fusion and what was missing ("" when nothing was).
        self._searches = Counter(
            "cairn_searches_total", "Searches answered.", ["mode", "fusion", "degraded"], registry=registry
        )
        # Time of a search, embedding of the query included.
        self._seconds = Histogram("cairn_search_seconds", "Duration of a search.", registry=registry, buckets=_SECONDS)
        # Chunks that each source proposed, the same chunk perhaps by several.
        self._candidates = Counter(
            "cairn_search_candidates_total", "Candidates by source.", ["source"], registry=registry
        )
        # Query vectors taken from the process's own cache, or asked of the embedder.
        self._vectors = Counter(
            "cairn_query_vectors_total", "Query vectors by where they came from.", ["result"], registry=registry
        )
        # Time to read the lexicon of the runbooks again after they changed.
        self.lexicon_seconds = Histogram(
            "cairn_lexicon_seconds", "Duration of reading word frequencies.", registry=registry
        )

    def searched(
        self, request: SearchRequest, degraded: Sequence[str], seconds: float, candidates: Mapping[str, int]
    ) -> None:
        """A search was answered."""
        self._searches.labels(request.mode, request.fusion, ",".join(degraded)).inc()
        self._seconds.observe(seconds)
        for source, count in candidates.items():
            self._candidates.labels(source).inc(count)

    def vector(self, *, cached: bool) -> None:
        """A query's vector was needed."""
        self._vectors.labels("hit" if cached else "miss").inc()
