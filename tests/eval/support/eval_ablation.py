"""What each part of the pipeline contributes: the same questions with one part changed or taken away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from unittest.mock import patch

import asyncpg
from eval_index import Servers, build
from eval_metrics import Figure

from cairn_ingest_consumer import prepare
from cairn_ingest_consumer.chunking import ChunkPolicy
from cairn_retriever.policy import CandidatePolicy, FusionPolicy, LexicalPolicy, RankingPolicy, RetrievalPolicy
from cairn_shared.events import Event

BASE = RetrievalPolicy()


@dataclass(frozen=True)
class Variant:
    """A name for the table, and what is different."""

    name: str
    policy: RetrievalPolicy = BASE
    request: tuple[tuple[str, str], ...] = ()
    chunks: ChunkPolicy | None = None
    """Another index: cut and embedded with this policy."""
    statement: str | None = None
    """Another index: a copy changed by this statement."""


def _ranking(**changes: object) -> RetrievalPolicy:
    return replace(BASE, ranking=replace(RankingPolicy(), **changes))  # type: ignore[arg-type]


def _lexical(**changes: float) -> RetrievalPolicy:
    return replace(BASE, lexical=replace(LexicalPolicy(), **changes))


def _fusion(alpha: float) -> RetrievalPolicy:
    return replace(BASE, fusion=replace(FusionPolicy(), alpha=alpha))


VARIANTS = (
    Variant("as shipped"),
    Variant("words only", request=(("mode", "keyword"),)),
    Variant("vectors only", request=(("mode", "semantic"),)),
    Variant("reciprocal ranks", request=(("fusion", "rrf"),)),
    Variant("documents by their best chunk alone", _ranking(by_document=False)),
    Variant("telling sections like others", _ranking(telling_factor=1.0)),
    Variant("late steps like early ones", _ranking(later_step=0.0)),
    Variant("neither of these two", _ranking(telling_factor=1.0, later_step=0.0)),
    Variant("no bonus for messages word by word", _ranking(quoting_bonus=0.0)),
    Variant("no bonus for identifiers", _ranking(identifier_bonus=0.0)),
    Variant("alpha 0.6", _fusion(0.6)),
    Variant("alpha 0.7", _fusion(0.7)),
    Variant("alpha 0.9", _fusion(0.9)),
    Variant("title weighs 1 instead of 3", _lexical(title=1.0)),
    Variant("title weighs 6", _lexical(title=6.0)),
    Variant("k1 1.2, b 0.75", _lexical(k1=1.2, b=0.75)),
    Variant("25 candidates a source", replace(BASE, candidates=replace(CandidatePolicy(), runbooks=25))),
    Variant("100 candidates a source", replace(BASE, candidates=replace(CandidatePolicy(), runbooks=100))),
    Variant("title not among the words", statement="UPDATE chunks SET tsv = ts_filter(tsv, '{b,d}')"),
    Variant("heading not among the words", statement="UPDATE chunks SET tsv = ts_filter(tsv, '{a,d}')"),
    Variant("no title before the embedded text", chunks=ChunkPolicy(prefix_tokens=0)),
    Variant("CamelCase names left whole there", chunks=ChunkPolicy(split_names=False)),
    Variant("windows of 120 tokens", chunks=ChunkPolicy(max_tokens=120)),
)


METRICS = ("R@1", "R@5", "MRR", "step@3")


def cell(figures: Mapping[str, Figure], metric: str) -> str:
    """A number of the table; blank where the set has no such metric."""
    return f"{figures[metric].value:.3f}" if metric in figures else ""


async def index_of(variant: Variant, number: int, dsn: str, servers: Servers, events: Sequence[Event]) -> str:
    """The index to ask for a variant: `dsn`, a changed copy of it, or one cut and embedded anew from `events`."""
    name = f"{dsn.rpartition('/')[2].removeprefix('eval_')}_{number}"
    if variant.statement is not None:
        return await _copied(dsn, servers.dsn(name), variant.statement)
    if variant.chunks is not None:
        with _chunked_by(variant.chunks):
            return await build(servers, name, events)
    return dsn


def _chunked_by(policy: ChunkPolicy) -> AbstractContextManager[object]:
    """A patch under which the write path cuts with `policy`."""

    def limited(max_tokens: int) -> ChunkPolicy:
        return replace(policy, max_tokens=min(max_tokens, policy.max_tokens))

    return patch.object(prepare, "ChunkPolicy", limited)


async def _copied(dsn: str, copy: str, statement: str) -> str:
    """A copy of the database `dsn`, changed by `statement`."""
    address, _, original = dsn.rpartition("/")
    connection = await asyncpg.connect(f"{address}/postgres")
    try:
        await connection.execute(f'CREATE DATABASE "{copy.rpartition("/")[2]}" TEMPLATE "{original}"', timeout=60)
    finally:
        await connection.close()
    connection = await asyncpg.connect(copy)
    try:
        await connection.execute(statement, timeout=60)
        await connection.execute("UPDATE corpus_state SET epoch = epoch + 1")
        await connection.execute("VACUUM (ANALYZE) chunks", timeout=60)
    finally:
        await connection.close()
    return copy
