"""One request to embed, from texts to vectors: tokenise, refuse or cut, look up, compute, remember."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from cairn_embedder.metrics import EmbedderMetrics
from cairn_embedder.model import Kind, Tokens, Vector
from cairn_embedder.ports import Engine, Reading, VectorCache
from cairn_shared.api.embedding import EmbedRequest, EmbedResponse, ModelInfo, pack_vector
from cairn_shared.errors import CairnError, InvalidInput, TransientError, Unavailable

_SURROGATE = re.compile("[\ud800-\udfff]")
MAX_CHARACTERS = 65_536
"""Longest text that is tokenised at all: 64 characters for each token of the longest input we accept."""


class Embedding:
    """Embeds requests with one model, here or elsewhere."""

    def __init__(self, reading: Reading, engine: Engine, cache: VectorCache, metrics: EmbedderMetrics) -> None:
        self._reading = reading
        self._engine = engine
        self._cache = cache
        self._metrics = metrics
        # Two threads: one request with long passages must not keep queries from being tokenised.
        self._tokenizers = ThreadPoolExecutor(2, thread_name_prefix="tokenize")

    @property
    def info(self) -> ModelInfo:
        """The model that is loaded."""
        return self._reading.info

    @property
    def tokenizer_json(self) -> str:
        """The model's tokenizer, without truncation and padding."""
        return self._reading.tokenizer_json

    def close(self) -> None:
        """Let go of the threads."""
        self._tokenizers.shutdown(wait=False, cancel_futures=True)

    def check(self) -> None:
        """Raise unless the model works.

        Raises:
            Unavailable: its last batch failed, and so did a harmless text.
        """
        if not self._engine.is_healthy:
            raise Unavailable("model")

    async def embed(self, request: EmbedRequest) -> EmbedResponse:
        """The vectors of `request.texts`, in order.

        Raises:
            InvalidInput: a text is blank, too long (unless `truncate`), or cannot be embedded; names `texts[i]`.
            TransientError: too much is waiting, or the model does not work at present.
        """
        self._metrics.texts.labels(request.kind).inc(len(request.texts))
        loop = asyncio.get_running_loop()
        cut = [text[:MAX_CHARACTERS] for text in request.texts]
        self._refuse_unread(request, cut)
        tokens = await loop.run_in_executor(self._tokenizers, self._reading.tokenize, cut, request.kind)
        self._refuse(request, tokens)
        truncated = [
            len(short) < len(text) or one.truncated for text, short, one in zip(request.texts, cut, tokens, strict=True)
        ]
        self._metrics.truncated.inc(sum(truncated))
        vectors = await self._vectors(cut, tokens, request.kind)
        return EmbedResponse(
            fingerprint=self.info.fingerprint,
            dimension=self.info.dimension,
            vectors=[pack_vector(vector.astype("<f4").tobytes()) for vector in vectors],
            tokens=[len(one.ids) for one in tokens],
            truncated=truncated,
        )

    def _refuse_unread(self, request: EmbedRequest, cut: Sequence[str]) -> None:
        for index, (text, short) in enumerate(zip(request.texts, cut, strict=True)):
            if len(short) < len(text) and not request.truncate:
                self._metrics.refused.labels("too-long").inc()
                raise InvalidInput(
                    f"texts[{index}] has {len(text)} characters, more than {MAX_CHARACTERS}: split it or set truncate",
                    field=f"texts[{index}]",
                )
            if not short.isascii() and _SURROGATE.search(short):
                self._metrics.refused.labels("not-unicode").inc()
                raise InvalidInput(f"texts[{index}] has half a surrogate pair", field=f"texts[{index}]")

    def _refuse(self, request: EmbedRequest, tokens: Sequence[Tokens]) -> None:
        for index, one in enumerate(tokens):
            field = f"texts[{index}]"
            if len(one.ids) <= self.info.special_tokens or not request.texts[index].strip():
                self._metrics.refused.labels("blank").inc()
                raise InvalidInput(f"{field} is blank: leave it out", field=field)
            if one.truncated and not request.truncate:
                self._metrics.refused.labels("too-long").inc()
                raise InvalidInput(
                    f"{field} has {one.count - self.info.prompt_tokens} tokens,"
                    f" the limit is {self.info.max_tokens}: split it or set truncate",
                    field=field,
                )

    async def _vectors(self, texts: Sequence[str], tokens: Sequence[Tokens], kind: Kind) -> list[Vector]:
        """Each distinct input once, from the cache where it is known."""
        first: dict[Tokens, int] = {}
        for index, one in enumerate(tokens):
            first.setdefault(one, index)
        distinct = list(first.values())
        known = await self._cache.get([texts[index] for index in distinct], kind)
        missing = [index for index, vector in zip(distinct, known, strict=True) if vector is None]
        found = {index: vector for index, vector in zip(distinct, known, strict=True) if vector is not None}
        if missing:
            computed = await self._engine.submit([tokens[index] for index in missing], kind)
            found.update(zip(missing, self._checked(missing, computed), strict=True))
            self._cache.put([texts[index] for index in missing], kind, [found[index] for index in missing])
        return [found[first[one]] for one in tokens]

    def _checked(self, indices: Sequence[int], results: Sequence[Vector | CairnError]) -> list[Vector]:
        """The vectors, or the first error; one that may pass comes before one that will not."""
        errors = [
            (index, result) for index, result in zip(indices, results, strict=True) if isinstance(result, CairnError)
        ]
        for _, error in errors:
            if isinstance(error, TransientError):
                raise error
        for index, error in errors:
            self._metrics.refused.labels("failed").inc()
            raise InvalidInput(f"texts[{index}]: {error.detail}", field=f"texts[{index}]") from error
        return [result for result in results if not isinstance(result, CairnError)]
