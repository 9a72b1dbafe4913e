"""The statements of a search. Values are bound; what is written into a text is a dimension or a fixed fragment.

Every vector source of the HNSW index asks for `ORDER BY embedding <=> query LIMIT n`, the one form that the index
answers; scores are combined outside, and no distance is compared inside, which would make an iterative scan walk to its
limit (pgvector's README, "Filtering" and "Iterative index scans").
"""
# ruff: noqa: S608 - see above: no value of a request is ever part of a text

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from cairn_retriever.adapters.scope import Half, Scope, half
from cairn_retriever.model import Lexicon, Phrase, Vector, WordChoice
from cairn_retriever.policy import CandidatePolicy, LexicalPolicy, RetrievalPolicy
from cairn_retriever.ports import Hints, QueryVectors

CHUNKS = "chunks c JOIN documents d USING (document_id)"


@dataclass(frozen=True)
class Statement:
    """A text and its values."""

    text: str
    args: list[Any]


@dataclass(frozen=True)
class Sources:
    """The statements that propose candidates of one half of the corpus, for one request.

    `vectors` is the table of the model in use. `without` leaves out steps whose content has one of these hashes.
    Limits are written into the text, so that a plan
    made for any values knows them.
    """

    half: Half
    scope: Scope
    policy: RetrievalPolicy
    now: datetime
    limit: int
    vectors: str | None
    without: Sequence[str] = ()

    def exact(self, vector: Vector) -> Statement:
        """The nearest by comparing every vector. Of unit vectors the inner product is the cosine, at half the price."""
        args: list[Any] = [vector]
        inside = half(self.half, "e")
        if self._filtered:
            inside = f"e.chunk_id IN (SELECT c.chunk_id FROM {CHUNKS} WHERE {self._conditions(args)})"
        return Statement(
            f"SELECT e.chunk_id FROM {self.vectors} e WHERE {inside}"
            f" ORDER BY (e.embedding <#> $1) + 0, e.chunk_id LIMIT {self.limit}",
            args,
        )

    def indexed(self, vector: Vector) -> Statement:
        """The nearest by the HNSW index, which goes on until `limit` of them pass the filters."""
        args: list[Any] = [vector]
        return Statement(
            f"SELECT e.chunk_id FROM {self.vectors} e WHERE {half(self.half, 'e')}{self._row_filters(args)}"
            f" ORDER BY e.embedding <=> $1 LIMIT {self.limit}",
            args,
        )

    def recent(self, vector: Vector) -> Statement:
        """The nearest of the latest: what will win by its age must be among the candidates."""
        policy = self.policy.candidates
        ahead = self.now + timedelta(days=self.policy.decay.ahead_days)
        args: list[Any] = [vector, self.now - timedelta(days=policy.recent_days), ahead]
        return Statement(
            "SELECT latest.chunk_id FROM ("
            f"SELECT e.chunk_id, e.embedding FROM {self.vectors} e WHERE {half(self.half, 'e')}"
            f" AND e.occurred_at > $2 AND e.occurred_at <= $3{self._row_filters(args)}"
            f" ORDER BY e.occurred_at DESC LIMIT {policy.recent_rows}"
            ") AS latest ORDER BY (latest.embedding <#> $1) + 0, latest.chunk_id"
            f" LIMIT {min(self.limit, policy.recent)}",
            args,
        )

    def count(self, limit: int) -> Statement:
        """How many chunks the filters leave, counted up to `limit`."""
        args: list[Any] = []
        conditions = self.scope.conditions(self.half, args)
        return Statement(
            f"SELECT count(*) FROM (SELECT 1 FROM {CHUNKS} WHERE {conditions} LIMIT {limit}) AS seen", args
        )

    def worded(self, words: Sequence[WordChoice], lexicon: Lexicon) -> Statement:
        """The best by BM25 over the words that select.

        Each word is a look-up of its own in the GIN index: an absent one costs nothing. ts_rank_cd with a single
        lexeme is its field-weighted number of occurrences. Scores are worked out before rows are grouped, so that no
        tsvector is sorted.
        """
        lexical = self.policy.lexical
        greatest = greatest_weight(lexical)
        args: list[Any] = [
            [quote_lexeme(word.lexeme) for word in words],
            [word.idf for word in words],
            field_weights(lexical),
            lexical.k1 * (1 - lexical.b) / greatest,
            lexical.k1 * lexical.b / (lexicon.average_length or 1.0) / greatest,
        ]
        tables, conditions = "chunks c", half(self.half, "c")
        if self._filtered:
            tables, conditions = CHUNKS, self._conditions(args)
        return Statement(
            "SELECT held.chunk_id FROM ("
            "SELECT one.chunk_id, sum(one.score) AS score FROM ("
            "SELECT c.chunk_id, asked.idf * (1 - k.saturation / (k.saturation + ts_rank_cd($3::real[], c.tsv,"
            " asked.lexeme))) AS score"
            " FROM unnest($1::text[]::tsquery[], $2::float8[]) AS asked(lexeme, idf),"
            f" {tables}, LATERAL (SELECT $4::float8 + $5::float8 * length(c.tsv) OFFSET 0) AS k(saturation)"
            f" WHERE c.tsv @@ asked.lexeme AND {conditions} OFFSET 0) AS one GROUP BY one.chunk_id"
            f") AS held ORDER BY held.score DESC, held.chunk_id LIMIT {self.limit}",
            args,
        )

    def identified(self, identifiers: Sequence[str]) -> Statement:
        """Chunks of steps that hold an identifier of the query, most identifiers first, then the latest."""
        args: list[Any] = [list(identifiers)]
        conditions = self._conditions(args)
        return Statement(
            "SELECT c.chunk_id FROM steps s JOIN chunks c USING (step_id)"
            " JOIN documents d ON d.document_id = s.document_id"
            f" WHERE s.identifiers && $1::text[] AND {conditions}"
            " ORDER BY (SELECT count(*) FROM unnest(s.identifiers) AS one WHERE one = ANY($1::text[])) DESC,"
            f" c.occurred_at DESC NULLS LAST, c.chunk_id LIMIT {self.limit}",
            args,
        )

    def routed(self, documents: Sequence[uuid.UUID]) -> Statement:
        """Chunks of the runbooks that the request names, from their first steps on."""
        args: list[Any] = [list(documents)]
        conditions = self._conditions(args)
        return Statement(
            "SELECT c.chunk_id FROM chunks c JOIN steps s USING (step_id)"
            " JOIN documents d ON d.document_id = c.document_id"
            f" WHERE c.document_id = ANY($1::uuid[]) AND {conditions}"
            f" ORDER BY s.step_number, c.ordinal, c.chunk_id LIMIT {max(self.limit, self.policy.candidates.routed)}",
            args,
        )

    def asked(self) -> Statement:
        """Chunks of the steps that answer the questions nearest to the query: those in `ASKED`."""
        args: list[Any] = []
        conditions = self._conditions(args)
        return Statement(
            f"SELECT c.chunk_id FROM asked, {CHUNKS} WHERE c.step_id = asked.step_id AND {conditions}"
            f" ORDER BY asked.cosine DESC, c.chunk_id LIMIT {self.limit}",
            args,
        )

    @property
    def _filtered(self) -> bool:
        return bool(self.scope.restricted or self.scope.event_kind or self.without)

    def _conditions(self, args: list[Any]) -> str:
        conditions = self.scope.conditions(self.half, args)
        if self.without:
            args.append(list(self.without))
            conditions += (
                f" AND (SELECT s.content_sha FROM steps s WHERE s.step_id = c.step_id) <> ALL(${len(args)}::text[])"
            )
        return conditions

    def _row_filters(self, args: list[Any]) -> str:
        """Filters on one row of vectors; a scalar sub-select, because a join would let the planner leave the index."""
        parts = ""
        if self.scope.event_kind:
            args.append(self.scope.event_kind)
            parts += f" AND e.kind = ${len(args)}"
        if self.scope.restricted or self.without:
            parts += f" AND (SELECT true FROM {CHUNKS} WHERE c.chunk_id = e.chunk_id AND {self._conditions(args)})"
        return parts


# Questions that a model made of runbooks (`EXPAND=llm`), nearest to the query. They lead to a step and are part of
# nothing that is shown; without any this costs one look into an index.
ASKED = """
asked AS MATERIALIZED (
    SELECT x.step_id, max(-(v.embedding <#> {vector})) AS cosine
    FROM expansion_vectors v JOIN expansions x USING (expansion_id) WHERE v.fingerprint = $6
    GROUP BY x.step_id ORDER BY cosine DESC, x.step_id LIMIT 50)
"""


def candidates(
    proposals: Sequence[Statement],
    hints: Hints,
    vectors: QueryVectors | None,
    *,
    table: str | None,
    policy: RetrievalPolicy,
    whole: Half,
    without: Sequence[str] = (),
    asked: bool = False,
) -> Statement:
    """The chunks that `proposals` give, each once, with every score filled in.

    Of runbooks, all chunks of the pages that the proposals speak for most, by the sum of their reciprocal places: what
    a page says is judged whole. `sources` are positions in `proposals`. The tsvector is concatenated with nothing so
    that it is read once, not once for each lexeme. With `asked`, which needs vectors, the nearest question made of a
    step counts as a refined query does.
    """
    args: list[Any] = [
        [quote_lexeme(one) for one in hints.lexemes],
        FIELDS,
        list(hints.identifiers),
        " & ".join(quote_lexeme(one) for one in hints.together) or None,
        [quote_phrase(one) for one in hints.phrases] if whole == "runbooks" else [],
    ]
    cosine = extra = "NULL::float8"
    join = first = ""
    if vectors is not None:
        args += [vectors.fingerprint, vectors.original]
        cosine = "-(e.embedding <#> $7)"
        join = f" LEFT JOIN {table} e ON e.chunk_id = flat.chunk_id AND e.fingerprint = $6"
        if vectors.extra is not None:
            args.append(vectors.extra)
            extra = "-(e.embedding <#> $8)"
        if asked:
            args.append(vectors.original)  # once more, for it is of another type there
            first = ASKED.format(vector=f"${len(args)}") + ", "
            join += " LEFT JOIN asked ON asked.step_id = flat.step_id"
            extra = f"greatest({extra}, asked.cosine)"
    union = " UNION ALL ".join(
        f"SELECT {place} AS source, row_number() OVER () AS place, p{place}.chunk_id"
        f" FROM ({_renumbered(proposal, args)}) AS p{place}"
        for place, proposal in enumerate(proposals)
    )
    titles = "NULL::text[]"
    chosen = "SELECT chunk_id, array_agg(source) AS sources FROM found GROUP BY chunk_id"
    if whole == "runbooks":
        titles = (
            "CASE WHEN row_number() OVER (PARTITION BY flat.document_id ORDER BY s.step_number, flat.ordinal) = 1"
            " THEN tsvector_to_array(ts_filter(flat.tsv, '{a}')) END"
        )
        args.append(list(without))
        chosen = _pages(policy.candidates, f"${len(args)}")
    return Statement(
        f"WITH {first}found AS MATERIALIZED ({union}), proposed AS MATERIALIZED ({chosen}), flat AS MATERIALIZED ("
        "SELECT proposed.sources, c.chunk_id, c.step_id, c.document_id, c.kind, c.ordinal, c.occurred_at,"
        " c.tsv || ''::tsvector AS tsv FROM proposed JOIN chunks c USING (chunk_id)"
        ") SELECT flat.sources, flat.chunk_id, flat.step_id, flat.document_id, flat.kind, flat.ordinal,"
        " flat.occurred_at, s.step_number, s.section, s.content_sha, length(flat.tsv) AS length,"
        " ARRAY(SELECT one FROM unnest(s.identifiers) AS one WHERE one = ANY($3::text[])) AS held,"
        " ARRAY(SELECT ts_rank_cd($2::real[], flat.tsv, lexeme) FROM unnest($1::text[]::tsquery[]) AS lexeme)"
        " AS fields,"
        " ARRAY(SELECT place - 1 FROM unnest($5::text[]::tsquery[]) WITH ORDINALITY AS one(phrase, place)"
        " WHERE flat.tsv @@ phrase) AS quoted,"
        " coalesce(ts_rank_cd(flat.tsv, $4::text::tsquery), 0) AS seed_rank,"
        f" {cosine} AS cosine, {extra} AS extra_cosine, d.title, d.path, {titles} AS title_lexemes"
        f" FROM flat JOIN steps s USING (step_id) JOIN documents d ON d.document_id = flat.document_id{join}"
        " ORDER BY flat.chunk_id",
        args,
    )


def _pages(limits: CandidatePolicy, without: str) -> str:
    """All chunks of the best pages; of a page of very many, its first ones and those that were found."""
    return (
        "SELECT chunk_id, array_agg(source) FILTER (WHERE source IS NOT NULL) AS sources FROM ("
        "SELECT member.chunk_id, found.source FROM ("
        " SELECT document_id FROM ("
        f" SELECT c.document_id, found.source, max(1.0 / ({limits.page_rank} + found.place)) AS share"
        " FROM found JOIN chunks c USING (chunk_id) GROUP BY c.document_id, found.source"
        f") AS of_source GROUP BY document_id ORDER BY sum(share) DESC, document_id LIMIT {limits.pages}"
        ") AS page CROSS JOIN LATERAL ("
        " (SELECT c.chunk_id FROM chunks c JOIN steps s USING (step_id)"
        f" WHERE c.document_id = page.document_id AND s.content_sha <> ALL({without}::text[])"
        f" ORDER BY s.step_number, c.ordinal LIMIT {limits.page_chunks})"
        " UNION SELECT c.chunk_id FROM found JOIN chunks c USING (chunk_id) WHERE c.document_id = page.document_id"
        ") AS member LEFT JOIN found USING (chunk_id)) AS every GROUP BY chunk_id"
    )


_PARAMETER = re.compile(r"\$(\d+)")


def _renumbered(statement: Statement, args: list[Any]) -> str:
    """The text with its parameters numbered after those in `args`, which its values are added to."""
    before = len(args)
    args.extend(statement.args)
    return _PARAMETER.sub(lambda match: f"${int(match[1]) + before}", statement.text)


HITS = """
SELECT s.step_id, s.step_number, s.label, s.section, s.body, s.line_start, s.line_end, s.content_sha, d.document_id,
       d.kind, d.source, d.external_id, d.title, d.path, d.commit_sha, d.url, d.service, d.severity, d.version,
       d.alerts, d.labels ->> 'author' AS author, d.indexed_at, coalesce(
           (SELECT max(c.occurred_at) FROM chunks c WHERE c.step_id = s.step_id), d.occurred_at
       ) AS occurred_at,
       -- A part that only names its document (a log template, an alert) counts 0: its occurrences are other parts.
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


FIELDS = [1.0 / (1 << 16), 1.0 / (1 << 16), 1.0 / (1 << 8), 1.0]
"""`{D, C, B, A}`: ts_rank_cd of one lexeme is the sum of the weights of its occurrences, so that with these it tells
how many there are in the text, in headings and in the title, in one number (exact in 24 bits)."""


def quote_lexeme(lexeme: str) -> str:
    """A lexeme as the text of a tsquery that matches just it: nothing in it is an operator."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def quote_phrase(phrase: Phrase) -> str:
    """A tsquery that matches where these lexemes follow one another at just these distances."""
    first, *others = phrase.lexemes
    pairs = zip(phrase.gaps, others, strict=True)
    return quote_lexeme(first) + "".join(f" <{gap}> {quote_lexeme(lexeme)}" for gap, lexeme in pairs)


def greatest_weight(lexical: LexicalPolicy) -> float:
    """What the weights given to ts_rank_cd must be multiplied with."""
    return max(lexical.title, lexical.section, lexical.body)


def field_weights(lexical: LexicalPolicy) -> list[float]:
    """`{D, C, B, A}` for ts_rank_cd, which wants them in [0, 1]: relative to the greatest."""
    greatest = greatest_weight(lexical)
    return [lexical.body / greatest, lexical.body / greatest, lexical.section / greatest, lexical.title / greatest]
