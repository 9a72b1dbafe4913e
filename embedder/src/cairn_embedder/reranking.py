"""One request to rerank: in one thread, and only a few at a time, so that vectors are not kept waiting for long."""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor

from cairn_embedder.ports import Scorer
from cairn_shared.api.reranking import RerankRequest, RerankResponse
from cairn_shared.errors import Overloaded, TransientError
from cairn_shared.logging import get_logger

log = get_logger(__name__)

MOST_WAITING = 8
"""Requests; whoever asks has no time for more, and a ranking without this model to fall back on."""


class Reranking:
    """Judges passages with one loaded model."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rerank")
        self._waiting = 0

    def close(self) -> None:
        """Let go of the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def rerank(self, request: RerankRequest) -> RerankResponse:
        """The scores of `request.passages`, in order.

        Raises:
            Overloaded: too many wait.
            TransientError: the model fails.
        """
        if self._waiting >= MOST_WAITING:
            raise Overloaded(f"{self._waiting} requests wait for the reranker already")
        self._waiting += 1
        try:
            scores = await asyncio.get_running_loop().run_in_executor(
                self._thread, self._scorer.score, request.query, request.passages
            )
        except Exception as exc:
            log.exception("the reranker failed")
            raise TransientError("the reranker does not work at present") from exc
        finally:
            self._waiting -= 1
        if len(scores) != len(request.passages) or not all(math.isfinite(score) for score in scores):
            raise TransientError("the reranker gave something else than a number a passage")
        return RerankResponse(model=self._scorer.name, scores=scores)
