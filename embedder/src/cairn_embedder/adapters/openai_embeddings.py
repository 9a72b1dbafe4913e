"""Vectors from an OpenAI-compatible endpoint: `POST {base}/embeddings`.

https://platform.openai.com/docs/api-reference/embeddings; vLLM, Text Embeddings Inference, Ollama and others speak it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
from pydantic import BaseModel, SecretStr, ValidationError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from cairn_embedder import dimensions
from cairn_embedder.metrics import EmbedderMetrics
from cairn_embedder.model import Kind, Tokens, Vector
from cairn_shared.clock import Clock
from cairn_shared.errors import CairnError, InvalidInput, TooLarge, TransientError, Unavailable
from cairn_shared.http import retry_after
from cairn_shared.logging import get_logger
from cairn_shared.openai import Endpoint
from cairn_shared.retry import Backoff

log = get_logger(__name__)

NAME = "embeddings endpoint"
MAX_ANSWER = 64 * 1024 * 1024
"""Bytes of one answer that are read: 256 vectors of 4,000 numbers written out take about half of it."""

MAX_COMPLAINT = 300
"""Characters of a refusal that are logged."""


_BACKOFF = Backoff(base=0.25, limit=5.0)


@dataclass(frozen=True)
class RemotePolicy:
    """How the endpoint is asked.

    Attributes:
        batch: texts of one request.
        concurrency: requests at once, for queries and for passages each, so that queries never wait for bulk.
        queue: passages that may wait.
        attempts: tries of one request while the endpoint is away or asks for patience.
        patience: seconds for all of them, waits included.
        rest: seconds between looks at an endpoint that does not work.
    """

    batch: int = 64
    concurrency: int = 4
    queue: int = 2048
    attempts: int = 3
    patience: float = 20.0
    rest: float = 5.0
    backoff: Backoff = _BACKOFF


class _Row(BaseModel):
    index: int
    embedding: list[float]


class _Answer(BaseModel):
    data: list[_Row]


class RemoteModel:
    """One model of an endpoint, asked once per call. `client` has its address and the time-out of one request."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        endpoint: Endpoint,
        *,
        model: str,
        api_key: SecretStr | None,
        dimensions: int | None,
    ) -> None:
        self._client = client
        self._model = model
        self._query = endpoint.query
        self._headers = endpoint.headers(api_key)
        self.asked_dimensions = dimensions

    async def embed(self, texts: Sequence[str]) -> Vector:
        """The vectors of `texts` as they come, shape (len(texts), whatever the model has).

        Raises:
            TransientError: it cannot be reached, refuses the key or the address, wants patience, or answers nonsense.
            InvalidInput, TooLarge: it refuses these texts.
        """
        body: dict[str, Any] = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        if self.asked_dimensions is not None:
            body["dimensions"] = self.asked_dimensions
        try:
            async with self._client.stream(
                "POST", "embeddings", params=self._query or None, json=body, headers=self._headers
            ) as response:
                content = await _limited(response)
        except httpx.TimeoutException as exc:
            raise Unavailable(NAME, f"the {NAME} timed out") from exc
        except httpx.HTTPError as exc:
            raise Unavailable(NAME) from exc
        if response.status_code >= 400:
            raise _refusal(response, content)
        # Megabytes of numbers: the loop has queries to serve meanwhile.
        return await asyncio.to_thread(_parsed, content, len(texts))


class RemoteEngine:
    """The port `Engine` over an endpoint: bounded requests, retries, and the culprit of a refused batch alone.

    `own` is how long the endpoint's vectors are, `dimension` what they are cut to.
    """

    def __init__(
        self,
        model: RemoteModel,
        policy: RemotePolicy,
        metrics: EmbedderMetrics,
        clock: Clock,
        *,
        own: int,
        dimension: int,
    ) -> None:
        self._model = model
        self._own = own
        self._dimension = dimension
        self._policy = policy
        self._metrics = metrics
        self._clock = clock
        self._doors: dict[Kind, asyncio.Semaphore] = {
            "query": asyncio.Semaphore(policy.concurrency),
            "passage": asyncio.Semaphore(policy.concurrency),
        }
        self._waiting: dict[Kind, int] = {"query": 0, "passage": 0}
        self.is_healthy = True

    async def submit(self, texts: Sequence[Tokens], kind: Kind) -> list[Vector | CairnError]:
        """As `Engine.submit`."""
        if self._waiting[kind] and self._waiting[kind] + len(texts) > self._policy.queue:
            self._metrics.refused.labels("queue-full").inc(len(texts))
            raise TransientError(f"{self._waiting[kind]} texts are waiting already", retry_after=1)
        self._count(kind, len(texts))
        try:
            results: list[Vector | CairnError] = []
            for start in range(0, len(texts), self._policy.batch):
                async with self._doors[kind]:
                    results += await self._embed([one.text for one in texts[start : start + self._policy.batch]])
            return results
        finally:
            self._count(kind, -len(texts))

    async def run(self) -> None:
        """Look at an endpoint that does not work, until it does: nobody may ask while this process is not ready."""
        while True:
            await self._clock.sleep(self._policy.rest)
            if not self.is_healthy:
                await self._probe()

    def _count(self, kind: Kind, texts: int) -> None:
        self._waiting[kind] += texts
        self._metrics.waiting.labels(kind).set(self._waiting[kind])

    async def _embed(self, texts: Sequence[str]) -> list[Vector | CairnError]:
        """One batch; one that is refused is halved until the text at fault is alone."""
        try:
            vectors = await self._patiently(texts)
        except InvalidInput as exc:
            self._metrics.batch_failures.inc()
            if len(texts) == 1:
                return [await self._blame(exc)]
            middle = len(texts) // 2
            return [*await self._embed(texts[:middle]), *await self._embed(texts[middle:])]
        self.is_healthy = True
        return [
            vector if np.any(vector) else InvalidInput("the model gives no usable vector for it")
            for vector in dimensions.of_unit_length(vectors, self._dimension)
        ]

    async def _blame(self, error: InvalidInput) -> CairnError:
        """The text's fault, unless the endpoint refuses a harmless one too."""
        if await self._probe():
            kind = "too large" if isinstance(error, TooLarge) else "not to be embedded"
            return InvalidInput(f"the {NAME} calls it {kind}")
        return TransientError(f"the {NAME} does not work at present")

    async def _probe(self) -> bool:
        try:
            await self._once(["ready"])
        except CairnError as exc:
            log.error("the embeddings endpoint does not work", detail=exc.detail)  # noqa: TRY400 - the loop is going on
            self.is_healthy = False
        else:
            self.is_healthy = True
        return self.is_healthy

    async def _patiently(self, texts: Sequence[str]) -> Vector:
        end = self._clock.monotonic() + self._policy.patience

        def wait(state: RetryCallState) -> float:
            failure = state.outcome.exception() if state.outcome else None
            asked = failure.retry_after if isinstance(failure, TransientError) else None
            return max(self._policy.backoff.delay(state.attempt_number), asked or 0.0)

        retrying = AsyncRetrying(
            # Not all that may pass: a key or an address that is refused does not get better within a request.
            retry=retry_if_exception_type(Unavailable),
            wait=wait,
            stop=lambda state: (
                state.attempt_number >= self._policy.attempts or self._clock.monotonic() + state.upcoming_sleep >= end
            ),
            sleep=self._clock.sleep,
            reraise=True,
        )
        try:
            return await retrying(self._once, texts)
        except TransientError as exc:
            self.is_healthy = isinstance(exc, Unavailable) and exc.retry_after is not None  # it is there, and busy
            raise

    async def _once(self, texts: Sequence[str]) -> Vector:
        started = self._clock.monotonic()
        vectors = await self._model.embed(texts)
        if vectors.shape[1] != self._own:
            raise TransientError(f"the {NAME} gives {vectors.shape[1]} dimensions, at start it gave {self._own}")
        self._metrics.encode.observe(self._clock.monotonic() - started)
        self._metrics.batch_texts.observe(len(texts))
        return vectors


async def measure(model: RemoteModel) -> int:
    """How long its vectors are. An endpoint that cannot cut them is asked for whole ones from here on.

    Raises:
        CairnError: it does not work.
    """
    try:
        vectors = await model.embed(["ready"])
    except InvalidInput as exc:
        if model.asked_dimensions is None:
            raise
        log.warning("the embeddings endpoint does not cut vectors: they are cut here", detail=exc.detail)
        model.asked_dimensions = None
        vectors = await model.embed(["ready"])
    return int(vectors.shape[1])


async def _limited(response: httpx.Response) -> bytes:
    content = bytearray()
    async for piece in response.aiter_bytes():
        content += piece
        if len(content) > MAX_ANSWER:
            raise TransientError(f"the answer of the {NAME} has no end")
    return bytes(content)


def _refusal(response: httpx.Response, content: bytes) -> CairnError:
    status = response.status_code
    if status in (408, 429) or status >= 500:
        return Unavailable(NAME, f"the {NAME} answered {status}", retry_after=retry_after(response))
    if status in (401, 403):
        return TransientError(f"the {NAME} refuses EMBEDDINGS_API_KEY ({status})")
    if status == 404:
        return TransientError(f"the {NAME} answered 404: is EMBEDDINGS_BASE_URL or EMBEDDING_MODEL wrong?")
    log.warning(
        "the embeddings endpoint refuses texts",
        status=status,
        complaint=content[:MAX_COMPLAINT].decode(errors="replace"),
    )
    return (TooLarge if status == 413 else InvalidInput)(f"the {NAME} answered {status}")


def _parsed(content: bytes, texts: int) -> Vector:
    """The vectors in the order of the texts.

    Raises:
        TransientError: a vector is missing, or they are not numbers of one length.
    """
    try:
        answer = _Answer.model_validate_json(content)
    except ValidationError as exc:
        raise TransientError(f"the {NAME} does not speak the embeddings protocol") from exc
    rows = {row.index: row.embedding for row in answer.data}
    if sorted(rows) != list(range(texts)) or len(answer.data) != texts:
        raise TransientError(f"the {NAME} gave {len(answer.data)} vectors for {texts} texts")
    lengths = {len(row) for row in rows.values()}
    if len(lengths) != 1 or lengths == {0}:
        raise TransientError(f"the {NAME} gave vectors of different lengths")
    with np.errstate(over="ignore"):  # what is too great for a float32 is not finite then
        vectors = np.array([rows[index] for index in range(texts)], dtype=np.float32)
    if not np.all(np.isfinite(vectors)):
        raise TransientError(f"the {NAME} gave a vector that is not finite")
    return vectors
