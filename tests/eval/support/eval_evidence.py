"""What the retriever finds for each question, kept: fitting and ablations read it, and ask nobody again."""

from __future__ import annotations

import hashlib
import pickle
import sqlite3
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from eval_made import Made
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from cairn_retriever.adapters.postgres_index import PostgresIndex
from cairn_retriever.adapters.query_embedder import CachedQueryEmbedder, QueryEmbedders
from cairn_retriever.adapters.read_transaction import leave_clean
from cairn_retriever.metrics import Metrics
from cairn_retriever.model import RUNBOOK, Candidate, CorpusState, Lexicon, Ranking
from cairn_retriever.policy import RetrievalPolicy
from cairn_retriever.ranking import Prefer
from cairn_retriever.search import Read, Searcher
from cairn_shared.api.search import SearchFilters, SearchRequest
from cairn_shared.clock import SystemClock
from cairn_shared.embedder_client import EmbedderClient
from cairn_shared.postgres import Pool, open_pool
from cairn_shared.settings import PostgresSettings


@dataclass(frozen=True)
class Evidence:
    """What a question was ranked by: the retriever's own reading of it, and the chunks of runbooks that were found."""

    question: Made
    read: Read
    candidates: Sequence[Candidate]


class Recorder(Searcher):
    """The retriever's use case, which also remembers what it ranked last."""

    last: tuple[Sequence[Candidate], Read]

    def _rank(self, candidates: Sequence[Candidate], request: SearchRequest, read: Read, prefer: Prefer) -> Ranking:
        self.last = (candidates, read)
        return super()._rank(candidates, request, read, prefer)


class Kept:
    """A file of evidence. `salt` names everything else that it depends on: the index and the retriever's code."""

    def __init__(self, folder: Path, salt: str) -> None:
        self._file = sqlite3.connect(folder / "evidence.sqlite", timeout=60, isolation_level=None)
        self._file.execute("CREATE TABLE IF NOT EXISTS evidence (key TEXT PRIMARY KEY, found BLOB) WITHOUT ROWID")
        self._salt = salt

    def get(self, question: Made) -> Evidence | None:
        """What was kept of a question."""
        row = self._file.execute("SELECT found FROM evidence WHERE key = ?", (self._key(question),)).fetchone()
        if row is None:
            return None
        read, candidates = pickle.loads(zlib.decompress(row[0]))
        return Evidence(question, read, candidates)

    def put(self, found: Evidence) -> None:
        """Keep it."""
        content = zlib.compress(pickle.dumps((found.read, list(found.candidates)), protocol=5), 1)
        self._file.execute("INSERT OR REPLACE INTO evidence VALUES (?, ?)", (self._key(found.question), content))

    def _key(self, question: Made) -> str:
        asked = (self._salt, question.text, question.only and f"repo:{question.only}")
        return hashlib.sha256(repr(asked).encode()).hexdigest()


async def gather(
    questions: Sequence[Made],
    dsn: str,
    http: httpx.AsyncClient,
    kept: Kept,
    policy: RetrievalPolicy = RetrievalPolicy(),
) -> list[Evidence]:
    """The evidence of every question, in order; only what is not kept is asked."""
    settings = PostgresSettings(pg_dsn=SecretStr(dsn), pg_command_timeout=120)
    found: list[Evidence] = []
    async with open_pool(settings, "eval", reset=leave_clean) as pool:
        metrics, clock = Metrics(CollectorRegistry()), SystemClock()
        embedder = CachedQueryEmbedder(EmbedderClient(http), metrics, size=0, timeout=60)
        index = PostgresIndex(pool, clock, policy, metrics, 1e9)
        searcher = Recorder(index, QueryEmbedders([embedder]), clock, metrics, policy)
        lexicon = await index.lexicon(await _state(pool))
        for question in questions:
            known = kept.get(question)
            if known is None:
                await searcher.search(_request(question))
                candidates, read = searcher.last
                runbooks = [one for one in candidates if one.kind == RUNBOOK]
                known = Evidence(question, replace(read, runbooks=NO_WORDS, events=NO_WORDS), runbooks)
                kept.put(known)
            found.append(replace(known, read=replace(known.read, runbooks=lexicon)))
    return found


NO_WORDS = Lexicon(0, 0.0, {})
"""The words of the whole corpus are not kept with every question."""


async def _state(pool: Pool) -> CorpusState:
    row = await pool.fetchrow("SELECT epoch, fingerprint, chunks, average_length FROM corpus_state")
    assert row is not None
    return CorpusState(
        epoch=row["epoch"],
        fingerprint=row["fingerprint"],
        chunks=row["chunks"],
        average_length=row["average_length"],
        refreshed=True,
        thresholds={},
        vectors=None,
    )


def _request(question: Made) -> SearchRequest:
    filters: dict[str, Any] = {"kind": RUNBOOK}
    if question.only:
        filters["source"] = f"repo:{question.only}"
    return SearchRequest(query=question.text, k=10, filters=SearchFilters(**filters))
