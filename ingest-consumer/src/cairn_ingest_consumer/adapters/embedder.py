"""The embedder over HTTP: vectors, and the tokenizer of its model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import httpx
from tokenizers import Tokenizer

from cairn_ingest_consumer.embedders import Endpoint
from cairn_ingest_consumer.errors import TextRefused
from cairn_ingest_consumer.model import Vector
from cairn_ingest_consumer.ports import EmbeddingModel
from cairn_shared.api.embedding import EmbedRequest, ModelInfo
from cairn_shared.embedder_client import EmbedderClient
from cairn_shared.errors import CairnError, InvalidInput, TooLarge, TransientError, Unavailable
from cairn_shared.http import raise_for_status
from cairn_shared.logging import get_logger

log = get_logger(__name__)


class HttpModelSource:
    """Asks the embedder for its model once, and again after `forget`."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._embedder = EmbedderClient(client)
        self._lock = asyncio.Lock()
        self._model: EmbeddingModel | None = None

    async def current(self) -> EmbeddingModel:
        """The embedder's model.

        Raises:
            TransientError: the embedder is away or does not answer as agreed.
        """
        async with self._lock:
            if self._model is None:
                info = await self._embedder.model()
                self._model = await self._load(info)
                log.info("embedding model", model=info.name, fingerprint=info.fingerprint, dimension=info.dimension)
            return self._model

    async def refresh(self) -> None:
        """Notice an embedder that was started again with another model, though nothing is embedded."""
        known = self._model
        if known is None:
            return
        try:
            info = await self._embedder.model()
        except CairnError:
            return
        if info.fingerprint != known.fingerprint:
            self.forget()

    def forget(self) -> None:
        """The embedder has another model now."""
        self._model = None

    async def _load(self, info: ModelInfo) -> EmbeddingModel:
        try:
            response = await self._client.get("/model/tokenizer")
        except httpx.HTTPError as exc:
            raise Unavailable("embedder") from exc
        try:
            raise_for_status("embedder", response)
        except InvalidInput as exc:
            raise TransientError(f"embedder: no tokenizer: {exc.detail}") from exc
        return await asyncio.to_thread(_model, info, response.text)


def _model(info: ModelInfo, tokenizer_json: str) -> EmbeddingModel:
    try:
        tokenizer = Tokenizer.from_str(tokenizer_json)
    except Exception as exc:  # the library raises bare Exception
        raise TransientError("embedder: its tokenizer cannot be read") from exc
    # MiniLM's tokenizer.json cuts at 128 tokens by itself: a counter must count everything.
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count_tokens(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=True).ids)

    return EmbeddingModel(info.fingerprint, info.dimension, info.max_tokens, count_tokens, info.name, info.storage)


class HttpEmbedder:
    """Embeds passages. Batches that are too large are halved, refused texts are found by halving.

    With `truncated`, texts over the model's limit are cut instead of refused, and their number is reported to it.
    """

    def __init__(self, client: EmbedderClient, truncated: Callable[[int], None] | None = None) -> None:
        self._client = client
        self._truncated = truncated

    async def embed(self, texts: Sequence[str], fingerprint: str) -> list[Vector]:
        """As `ports.Embedder.embed`."""
        try:
            answer = await self._client.embed(EmbedRequest(texts=list(texts), truncate=self._truncated is not None))
        except InvalidInput as exc:
            if len(texts) > 1:
                return await self._halves(texts, fingerprint)
            kind = "too large" if isinstance(exc, TooLarge) else "refused"
            raise TextRefused(0, f"the embedder calls the text {kind}: {exc.detail}") from exc
        if answer.fingerprint != fingerprint:
            raise TransientError("embedder has another model than before")
        if self._truncated is not None:
            self._truncated(sum(answer.truncated))
        return list(answer.vectors)

    async def _halves(self, texts: Sequence[str], fingerprint: str) -> list[Vector]:
        middle = len(texts) // 2
        left = await self.embed(texts[:middle], fingerprint)
        try:
            return left + await self.embed(texts[middle:], fingerprint)
        except TextRefused as exc:
            raise TextRefused(middle + exc.index, exc.detail) from exc


def http_endpoint(client: httpx.AsyncClient, truncated: Callable[[int], None] | None = None) -> Endpoint:
    """The embedder behind `client`; how many texts were cut for a model not in use goes to `truncated`."""
    embedder = EmbedderClient(client)
    cutting = HttpEmbedder(embedder, truncated or _uncounted)
    return Endpoint(HttpModelSource(client), HttpEmbedder(embedder), cutting)


def _uncounted(_: int) -> None:
    """Nobody wants to know."""
