"""The statements of a search. Values are bound; what is written into a text is a dimension or a fixed fragment."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from cairn_retriever.adapters.scope import Half, Scope, half
from cairn_retriever.model import Vector
from cairn_retriever.policy import CandidatePolicy, LexicalPolicy
from cairn_retriever.ports import QueryVectors

Statement = tuple[str, list[Any]]
VectorSource = Callable[[Scope, Half, Vector, Sequence[str], int, CandidatePolicy], Statement]


def embeddings(vector: Vector) -> str:
    """The table of vectors of this one's dimension."""
    return f"chunk_embeddings_{int(vector.shape[0])}"


def _not_copies(without: Sequence[str], args: list[Any], chunk: str = "c") -> str:
    if not without:
        return ""
    args.append(list(without))
    return f" AND {chunk}.embed_sha <> ALL(${len(args)}::text[])"


def exact(
    scope: Scope, which: Half, vector: Vector, without: Sequence[str], limit: int, _: CandidatePolicy
) -> Statement:
    """The nearest of one half by comparing every vector: `+ 0` keeps the planner off the index."""
    args: list[Any] = [vector, limit]
    if scope.restricted or scope.event_kind or without:
        conditions = scope.conditions(which, args) + _not_copies(without, args)
        inside = (
            f"e.chunk_id IN (SELECT c.chunk_id FROM chunks c JOIN documents d USING (document_id) WHERE {conditions})"
        )
    else:
        inside = half(which, "e")
    return (
        f"SELECT e.chunk_id FROM {embeddings(vector)} e WHERE {inside}"
        " ORDER BY (e.embedding <=> $1) + 0, e.chunk_id LIMIT $2",
        args,
    )


def indexed(
    scope: Scope, which: Half, vector: Vector, without: Sequence[str], limit: int, _: CandidatePolicy
) -> Statement:
    """The nearest of one half by the HNSW index, which goes on until `limit` pass the filters.

    Filters are a scalar sub-select: a join would let the planner leave the index.
    """
    args: list[Any] = [vector, limit]
    filters = _filters(scope, which, without, args)
    return (
        "WITH nearest AS MATERIALIZED ("
        f"SELECT e.chunk_id, e.embedding <=> $1 AS distance FROM {embeddings(vector)} e"
        f" WHERE {half(which, 'e')}{filters} ORDER BY e.embedding <=> $1 LIMIT $2"
        ") SELECT chunk_id FROM nearest ORDER BY distance + 0, chunk_id",
        args,
    )


def recent(
    scope: Scope, which: Half, vector: Vector, without: Sequence[str], limit: int, policy: CandidatePolicy
) -> Statement:
    """The nearest of the latest: what will win by its age must be among the candidates."""
    args: list[Any] = [vector, limit, policy.recent_days, policy.recent_rows]
    filters = _filters(scope, which, without, args)
    return (
        "WITH latest AS MATERIALIZED ("
        f"SELECT e.chunk_id, e.embedding FROM {embeddings(vector)} e WHERE {half(which, 'e')}"
        f" AND e.occurred_at > now() - make_interval(days => $3){filters} ORDER BY e.occurred_at DESC LIMIT $4"
        ") SELECT chunk_id FROM latest ORDER BY (embedding <=> $1) + 0, chunk_id LIMIT $2",
        args,
    )


def _filters(scope: Scope, which: Half, without: Sequence[str], args: list[Any]) -> str:
    parts = ""
    if scope.event_kind:
        args.append(scope.event_kind)
        parts += f" AND e.kind = ${len(args)}"
    if scope.restricted or without:
        conditions = scope.conditions(which, args) + _not_copies(without, args)
        parts += (
            " AND (SELECT true FROM chunks c JOIN documents d USING (document_id)"
            f" WHERE c.chunk_id = e.chunk_id AND {conditions})"
        )
    return parts


def count(scope: Scope, limit: int) -> Statement:
    """How many event chunks the filters leave, counted up to `limit`."""
    args: list[Any] = [limit]
    conditions = scope.conditions("events", args)
    return (
        "SELECT count(*) FROM (SELECT 1 FROM chunks c JOIN documents d USING (document_id)"
        f" WHERE {conditions} LIMIT $1) AS seen",
        args,
    )


def worded(
    scope: Scope,
    which: Half,
    queries: Sequence[str],
    weights: Sequence[float],
    without: Sequence[str],
    limit: int,
    policy: LexicalPolicy,
) -> Statement:
    """The best of one half by the sum of the weights of the lexemes they hold, saturated as BM25 does.

    Each lexeme is a search of its own in the GIN index, joined by nothing but OR: an absent word costs nothing.
    """
    args: list[Any] = [list(queries), list(weights), limit, policy.k1]
    join = condition = ""
    if scope.restricted or scope.event_kind:
        join = " JOIN documents d USING (document_id)"
        condition = f" AND {scope.conditions(which, args)}"
    condition += _not_copies(without, args)
    return (
        "WITH held AS ("
        "SELECT c.chunk_id, sum(asked.weight * f.tf / (f.tf + $4)) AS score"
        " FROM unnest($1::text[]::tsquery[], $2::float8[]) AS asked(lexeme, weight)"
        f" JOIN chunks c ON {half(which, 'c')} AND c.tsv @@ asked.lexeme{join}"
        " CROSS JOIN LATERAL (SELECT ts_rank_cd('{0.33,0.33,0.66,1}', c.tsv, asked.lexeme) AS tf) AS f"
        f" WHERE true{condition} GROUP BY c.chunk_id"
        ") SELECT chunk_id FROM held ORDER BY score DESC, chunk_id LIMIT $3",
        args,
    )


def identified(scope: Scope, identifiers: Sequence[str], without: Sequence[str], limit: int) -> Statement:
    """Chunks of steps that hold an identifier of the query, most identifiers first, then the latest."""
    args: list[Any] = [list(identifiers), limit]
    conditions = scope.conditions(None, args) + _not_copies(without, args)
    return (
        "SELECT c.chunk_id FROM steps s JOIN chunks c USING (step_id) JOIN documents d ON d.document_id = s.document_id"
        f" WHERE s.identifiers && $1::text[] AND {conditions}"
        " ORDER BY (SELECT count(*) FROM unnest(s.identifiers) AS one WHERE one = ANY($1::text[])) DESC,"
        " c.occurred_at DESC NULLS LAST, c.chunk_id LIMIT $2",
        args,
    )


def routed(scope: Scope, documents: Sequence[uuid.UUID], limit: int) -> Statement:
    """Chunks of the runbooks that the request names, from their first steps on."""
    args: list[Any] = [list(documents), limit]
    conditions = scope.conditions(None, args)
    return (
        "SELECT c.chunk_id FROM chunks c JOIN steps s USING (step_id) JOIN documents d ON d.document_id = c.document_id"
        f" WHERE c.document_id = ANY($1::uuid[]) AND {conditions}"
        " ORDER BY s.step_number, c.ordinal, c.chunk_id LIMIT $2",
        args,
    )


def fill(
    chunks: Sequence[uuid.UUID],
    queries: Sequence[str],
    weights: Sequence[float],
    all_lexemes: str | None,
    identifiers: Sequence[str],
    vectors: QueryVectors | None,
) -> Statement:
    """Every score of the chunks.

    ts_rank_cd with one lexeme is its field-weighted number of occurrences. The tsvector is concatenated with nothing
    so that it is decompressed once, not once for each lexeme.
    """
    args: list[Any] = [list(chunks), list(queries), list(weights), all_lexemes, list(identifiers)]
    cosine = extra = "NULL::float8"
    join = ""
    if vectors is not None:
        args += [vectors.original, vectors.fingerprint]
        cosine = "1 - (e.embedding <=> $6)"
        join = f" LEFT JOIN {embeddings(vectors.original)} e ON e.chunk_id = flat.chunk_id AND e.fingerprint = $7"
        if vectors.extra is not None:
            args.append(vectors.extra)
            extra = "1 - (e.embedding <=> $8)"
    return (
        "WITH flat AS MATERIALIZED ("
        "SELECT c.chunk_id, c.step_id, c.document_id, c.kind, c.ordinal, c.occurred_at, c.embed_sha,"
        " c.tsv || ''::tsvector AS tsv FROM chunks c WHERE c.chunk_id = ANY($1::uuid[])"
        ") SELECT flat.chunk_id, flat.step_id, flat.document_id, flat.kind, flat.ordinal, flat.occurred_at, flat.embed_sha,"
        " s.step_number, s.content_sha, length(flat.tsv) AS length,"
        " ARRAY(SELECT one FROM unnest(s.identifiers) AS one WHERE one = ANY($5::text[])) AS held,"
        " ARRAY(SELECT ts_rank_cd($3::real[], flat.tsv, lexeme)"
        " FROM unnest($2::text[]::tsquery[]) WITH ORDINALITY AS q(lexeme, place) ORDER BY place) AS frequencies,"
        " coalesce(ts_rank_cd(flat.tsv, $4::text::tsquery), 0) AS seed_rank,"
        f" {cosine} AS cosine, {extra} AS extra_cosine"
        f" FROM flat JOIN steps s USING (step_id){join} ORDER BY flat.chunk_id",
        args,
    )


HITS = """
SELECT s.step_id, s.step_number, s.label, s.section, s.body, s.line_start, s.line_end, s.content_sha, d.document_id, d.kind,
       d.source, d.external_id, d.title, d.path, d.commit_sha, d.url, d.service, d.severity, d.version, d.indexed_at,
       coalesce((SELECT max(c.occurred_at) FROM chunks c WHERE c.step_id = s.step_id), d.occurred_at) AS occurred_at,
       -- A part that only names its document (a log template, an alert) counts nothing: its occurrences are other parts.
       CASE WHEN p.count = 0 THEN (
           SELECT greatest(sum(own.count), 1)::bigint FROM document_parts own
           WHERE own.document_id = s.document_id AND NOT own.deleted
       ) ELSE coalesce(p.count, 1) END AS count,
       CASE WHEN d.kind = 'runbook' THEN 0 ELSE (
           SELECT coalesce(sum(part.count), 0)::bigint
           FROM steps other
           JOIN document_parts part ON part.document_id = other.document_id AND part.part = other.part
           WHERE other.content_sha = s.content_sha AND other.step_id <> s.step_id
       ) END AS copies
FROM unnest($1::uuid[]) AS wanted(step_id)
JOIN steps s ON s.step_id = wanted.step_id
JOIN documents d ON d.document_id = s.document_id
LEFT JOIN document_parts p ON p.document_id = s.document_id AND p.part = s.part
"""
