"""Asking the retriever, through its own HTTP application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import httpx
from eval_sets import Question
from pydantic import SecretStr

from cairn_retriever.app import create_app
from cairn_retriever.policy import RetrievalPolicy
from cairn_retriever.settings import RetrieverSettings
from cairn_shared.api.search import Hit, SearchResponse

K = 20


@dataclass(frozen=True)
class System:
    """A way to search that is measured."""

    name: str
    request: dict[str, Any] = field(default_factory=dict)


SYSTEMS = (
    System("learned"),
    System("tm2c2", {"fusion": "tm2c2"}),
    System("rrf", {"fusion": "rrf"}),
    System("seed", {"fusion": "seed"}),
    System("dense only", {"mode": "semantic"}),
    System("keyword only", {"mode": "keyword"}),
)


@dataclass(frozen=True)
class Outcome:
    """What a question found: documents by their key, each once, and the steps as they came."""

    question: Question
    documents: list[str]
    steps: list[tuple[str, int]]
    response: SearchResponse


def page_of(hit: Hit) -> str:
    """Pages of the public corpora are known by their file's name, which is the alert's."""
    return PurePosixPath(hit.path or "").stem.casefold()


def runbook_of(hit: Hit) -> str:
    """Demo runbooks are known by their id."""
    return hit.runbook_id


class Retriever:
    """One retriever over one index."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def ask(self, question: Question, key: Callable[[Hit], str], **request: Any) -> Outcome:
        """The outcome of one question."""
        body: dict[str, Any] = {"query": question.text, "k": K, "explain": True} | request
        if question.source is not None:
            body["filters"] = {"source": question.source}
        response = await self.client.post("/search", json=body)
        response.raise_for_status()
        answer = SearchResponse.model_validate_json(response.content)
        if answer.degraded:
            raise RuntimeError(f"the search was degraded ({', '.join(answer.degraded)}): nothing measured would hold")
        documents = list(dict.fromkeys(key(hit) for hit in answer.results))
        return Outcome(question, documents, [(key(hit), hit.step) for hit in answer.results], answer)

    async def ask_all(self, questions: Iterable[Question], key: Callable[[Hit], str], **request: Any) -> list[Outcome]:
        """The outcomes of many, in order."""
        return [await self.ask(question, key, **request) for question in questions]


@asynccontextmanager
async def retriever(dsn: str, embedder: str, policy: RetrievalPolicy = RetrievalPolicy()) -> AsyncIterator[Retriever]:
    """The retriever's application in this process, with its real adapters."""
    async with retriever_client(dsn, embedder, policy) as client:
        yield Retriever(client)


@asynccontextmanager
async def retriever_client(
    dsn: str, embedder: str, policy: RetrievalPolicy = RetrievalPolicy()
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of it."""
    settings = RetrieverSettings(
        pg_dsn=SecretStr(dsn), embedder_url=embedder, port=0, lexicon_max_age=0.0, query_embed_timeout=60
    )
    app = create_app(settings, policy=policy)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://retriever", timeout=120, trust_env=False
        ) as client,
    ):
        yield client
