"""The retriever's settings, each an environment variable."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cairn_shared.settings import EmbeddersClientSettings, PostgresSettings, ServiceSettings


class RetrieverSettings(ServiceSettings, PostgresSettings, EmbeddersClientSettings):
    """Where things are, and what a search may cost."""

    port: Annotated[int, Field(ge=0, le=65535, description="Port to listen on.")] = 8002
    query_embed_timeout: Annotated[
        float, Field(gt=0, description="Seconds to wait for the query's vector before searching without it.")
    ] = 1.5
    query_vector_cache: Annotated[int, Field(ge=0, description="Query vectors kept in the process.")] = 2048
    lexicon_max_age: Annotated[
        float, Field(ge=0, description="Seconds that word frequencies may be behind the runbooks until read again.")
    ] = 1.0
    rerank: Annotated[
        bool, Field(description="Let the embedder's RERANKER_MODEL put the best hits in another order.")
    ] = False
    rerank_top: Annotated[int, Field(ge=2, le=50, description="How many hits it looks at.")] = 20
    rerank_timeout: Annotated[float, Field(gt=0, description="Seconds for it; then the order stays as it was.")] = 0.8
