"""The embedder's settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, model_validator

from cairn_embedder.dimensions import LIMITS
from cairn_shared.settings import RedisSettings, ServiceSettings


class EmbedderSettings(ServiceSettings):
    """What `python -m cairn_embedder` reads from the environment."""

    port: Annotated[int, Field(ge=0, le=65535, description="Port to listen on.")] = 8001
    redis_url: Annotated[SecretStr | None, Field(description="Where vectors are cached; unset: nowhere.")] = None
    redis_timeout: Annotated[float, Field(gt=0, description="Seconds for one command.")] = 0.25

    embedding_model: Annotated[
        str,
        Field(min_length=1, description="A sentence-transformers model: a name on the hub, or a folder (`/` or `.`)."),
    ] = "all-MiniLM-L6-v2"
    embeddings_base_url: Annotated[
        str | None,
        Field(
            pattern=r"^https?://",
            description="An OpenAI-compatible `/v1` that has EMBEDDING_MODEL; unset: it is loaded here.",
        ),
    ] = None
    embeddings_api_key: Annotated[SecretStr | None, Field(description="Of that endpoint.")] = None
    embeddings_timeout: Annotated[float, Field(gt=0, description="Seconds for one request to it.")] = 10.0
    embeddings_attempts: Annotated[int, Field(ge=1, le=10, description="Tries of one request, back-off between.")] = 3
    embeddings_batch: Annotated[int, Field(ge=1, le=256, description="Texts of one request.")] = 64
    embeddings_concurrency: Annotated[
        int, Field(ge=1, le=64, description="Requests at once, for queries and for passages each.")
    ] = 4
    embeddings_tokenizer: Annotated[
        str | None,
        Field(description="The `tokenizer.json` of the endpoint's model, or its folder; unset: tokens are estimated."),
    ] = None
    embedding_revision: Annotated[str | None, Field(description="Commit of the model on the hub.")] = None
    embedding_trust_remote_code: Annotated[
        bool, Field(description="Run code that the model brings along; needs EMBEDDING_REVISION.")
    ] = False
    embedding_max_tokens: Annotated[
        int | None, Field(ge=16, le=8192, description="Longest input, special tokens included; at most the model's.")
    ] = None
    embedding_dtype: Annotated[
        Literal["float32", "bfloat16", "auto"],
        Field(description="Weights; part of the fingerprint. `auto` measures at start and may differ by machine."),
    ] = "float32"
    embedding_dimensions: Annotated[
        int | None,
        Field(ge=8, le=4000, description="Cut vectors to so many dimensions (Matryoshka models); unset: the model's."),
    ] = None
    embedding_storage: Annotated[
        Literal["vector", "halfvec"] | None,
        Field(description="4 or 2 bytes a number in the index; unset: `vector` up to 512 dimensions, else `halfvec`."),
    ] = None
    embedding_query_prefix: Annotated[
        str | None,
        Field(description="In front of every query; unset: the model's own prompt, `none`: nothing."),
    ] = None
    embedding_passage_prefix: Annotated[
        str | None,
        Field(description="In front of every passage; unset: the model's own prompt, `none`: nothing."),
    ] = None
    reranker_model: Annotated[
        str | None,
        Field(description="A sentence-transformers CrossEncoder for POST /rerank: a name on the hub, or a folder."),
    ] = None
    reranker_revision: Annotated[str | None, Field(description="Commit of it on the hub.")] = None
    reranker_max_tokens: Annotated[int, Field(ge=32, le=8192, description="Of query and passage together.")] = 256
    embedding_threads: Annotated[int, Field(ge=0, description="Threads of one inference; 0: the library's choice.")] = 0
    embedding_batch_tokens: Annotated[
        int, Field(ge=256, description="Most tokens of one batch, padding included: what a query may have to wait for.")
    ] = 512
    embedding_queue_size: Annotated[int, Field(ge=1, description="Passages that may wait; more are answered 503.")] = (
        2048
    )
    embedding_cache_seconds: Annotated[int, Field(ge=1, description="How long Redis keeps a vector.")] = 7 * 86_400

    @model_validator(mode="after")
    def _check_model(self) -> Self:
        if self.embeddings_base_url is None:
            self._check_local_model()
        elif "embedding_model" not in self.model_fields_set:
            raise ValueError("EMBEDDINGS_BASE_URL needs EMBEDDING_MODEL: the name that the endpoint knows it by")
        if (self.reranker_model or "").startswith(("/", ".")) and not Path(self.reranker_model or "").is_dir():
            raise ValueError("RERANKER_MODEL names a folder that does not exist")
        if self.embedding_storage == "vector" and (self.embedding_dimensions or 0) > LIMITS["vector"]:
            raise ValueError(
                f"EMBEDDING_STORAGE: an index of `vector` takes at most {LIMITS['vector']} dimensions, use halfvec"
            )
        return self

    def _check_local_model(self) -> None:
        if self.embedding_trust_remote_code and not self.embedding_revision:
            raise ValueError("EMBEDDING_TRUST_REMOTE_CODE needs EMBEDDING_REVISION, so that the code cannot change")
        if self.embedding_model.startswith(("/", ".")) and not Path(self.embedding_model).is_dir():
            raise ValueError("EMBEDDING_MODEL names a folder that does not exist")

    def redis(self) -> RedisSettings | None:
        """How to reach Redis, when there is one."""
        if self.redis_url is None:
            return None
        return RedisSettings(redis_url=self.redis_url, redis_timeout=self.redis_timeout)
