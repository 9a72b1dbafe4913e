"""The statements of the write path, and the rows that go into them.

Rows travel as one JSON parameter: `jsonb_to_recordset` takes arrays of unequal length, which `unnest` does not.
`{table}` is that of an embedding space; its name comes from PostgreSQL, which made it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from cairn_ingest_consumer.model import MAIN_PART, PIPELINE, PreparedPart
from cairn_shared.searchable import TSVECTOR, searchable

KNOWN_PARTS = """
SELECT p.document_id, p.part, p.version, p.arrived, p.event_id, p.pipeline, p.content_sha, p.deleted
FROM unnest($1::uuid[], $2::text[]) AS k(document_id, part) JOIN document_parts p USING (document_id, part)
"""

VECTORS = """
SELECT c.embed_sha, e.embedding FROM chunks c JOIN {table} e USING (chunk_id) WHERE c.document_id = ANY($1::uuid[])
"""

INSERT_STUBS = """
INSERT INTO documents (document_id, kind, source, external_id)
SELECT DISTINCT ON (document_id) document_id, kind, source, external_id
FROM jsonb_to_recordset($1::jsonb) AS r(document_id uuid, kind text, source text, external_id text)
ORDER BY document_id
ON CONFLICT DO NOTHING
"""

LOCK = "SELECT document_id FROM documents WHERE document_id = ANY($1::uuid[]) ORDER BY document_id FOR UPDATE"

# The guard. What came later breaks ties, then the event's id: all in the event, so any order of delivery ends the same.
CLAIM = """
INSERT INTO document_parts AS p
    (document_id, part, version, arrived, event_id, pipeline, content_sha, deleted, count, first_seen, last_seen)
SELECT document_id, part, version, arrived, event_id, pipeline, content_sha, deleted, count, first_seen, last_seen
FROM jsonb_to_recordset($1::jsonb) AS r(
    document_id uuid, part text, version bigint, arrived bigint, event_id uuid, pipeline text, content_sha text,
    deleted boolean, count bigint, first_seen timestamptz, last_seen timestamptz)
ORDER BY document_id, part
ON CONFLICT (document_id, part) DO UPDATE SET
    version = excluded.version, arrived = excluded.arrived, event_id = excluded.event_id, pipeline = excluded.pipeline,
    content_sha = excluded.content_sha, deleted = excluded.deleted, count = excluded.count,
    first_seen = excluded.first_seen, last_seen = excluded.last_seen
WHERE (excluded.version, excluded.arrived, excluded.event_id) > (p.version, p.arrived, p.event_id)
   OR ((excluded.version, excluded.arrived, excluded.event_id) = (p.version, p.arrived, p.event_id)
       AND excluded.pipeline COLLATE "C" > p.pipeline COLLATE "C")
RETURNING document_id, part
"""

# The main part names the document. While there is none, the part with the highest rank does, so that the order in
# which parts arrive leaves no trace.
UPDATE_DOCUMENTS = """
UPDATE documents d SET
    kind = r.kind, title = r.title, service = r.service, severity = r.severity, owner = r.owner, status = r.status,
    tags = r.tags, alerts = r.alerts, links = r.links, labels = r.labels, path = r.path, commit_sha = r.commit_sha,
    blob_sha = r.blob_sha, url = r.url, occurred_at = r.occurred_at, accepted_at = r.accepted_at, indexed_at = now(),
    version = CASE WHEN r.main THEN r.version ELSE d.version END,
    content_sha = CASE WHEN r.main THEN r.content_sha ELSE d.content_sha END,
    deleted = CASE WHEN r.main THEN r.deleted ELSE d.deleted END
FROM jsonb_to_recordset($1::jsonb) AS r(
    document_id uuid, main boolean, arrived bigint, event_id uuid, kind text, title text, service text, severity text,
    owner text, status text, tags text[], alerts text[], links text[], labels jsonb, path text, commit_sha text,
    blob_sha text, url text, version bigint, content_sha text, deleted boolean, occurred_at timestamptz,
    accepted_at timestamptz)
WHERE d.document_id = r.document_id AND r.main = $2 AND (r.main OR (d.version = -1 AND NOT EXISTS (
    SELECT FROM document_parts p
    WHERE p.document_id = r.document_id AND (p.version, p.arrived, p.event_id) > (r.version, r.arrived, r.event_id))))
"""

# Questions made of a runbook go with the content that they were made of; `$2` are documents written anew.
DELETE_EXPANSIONS = """
DELETE FROM expansion_runs r USING documents d
WHERE r.document_id = d.document_id AND d.document_id = ANY($1::uuid[])
  AND (d.deleted OR d.content_sha <> r.content_sha OR d.document_id = ANY($2::uuid[]))
"""

TOUCH = "UPDATE documents SET indexed_at = now() WHERE document_id = ANY($1::uuid[]) AND indexed_at <> now()"

HIDDEN = "SELECT document_id FROM documents WHERE document_id = ANY($1::uuid[]) AND deleted"

DELETE_HIDDEN_STEPS = "DELETE FROM steps WHERE document_id = ANY($1::uuid[])"

PRESENT_CHUNKS = """
SELECT c.chunk_id, c.embed_sha, e.kind, e.occurred_at
FROM chunks c JOIN {table} e USING (chunk_id)
WHERE c.document_id = ANY($1::uuid[])
"""

DELETE_STEPS = """
DELETE FROM steps s USING unnest($1::uuid[], $2::text[]) AS w(document_id, part)
WHERE s.document_id = w.document_id AND s.part = w.part AND s.step_id <> ALL($3::uuid[])
"""

DELETE_CHUNKS = """
DELETE FROM chunks c USING steps s, unnest($1::uuid[], $2::text[]) AS w(document_id, part)
WHERE c.step_id = s.step_id AND s.document_id = w.document_id AND s.part = w.part AND c.chunk_id <> ALL($3::uuid[])
"""

UPSERT_STEPS = """
INSERT INTO steps AS s
    (step_id, document_id, part, step_number, label, section, body, line_start, line_end, content_sha, identifiers)
SELECT step_id, document_id, part, step_number, label, section, body, line_start, line_end, content_sha, identifiers
FROM jsonb_to_recordset($1::jsonb) AS r(
    step_id uuid, document_id uuid, part text, step_number int, label text, section text, body text,
    line_start int, line_end int, content_sha text, identifiers text[])
ON CONFLICT (step_id) DO UPDATE SET
    label = excluded.label, section = excluded.section, body = excluded.body, line_start = excluded.line_start,
    line_end = excluded.line_end, content_sha = excluded.content_sha, identifiers = excluded.identifiers
WHERE (s.content_sha, s.line_start, s.line_end, s.identifiers)
    IS DISTINCT FROM (excluded.content_sha, excluded.line_start, excluded.line_end, excluded.identifiers)
"""

UPSERT_CHUNKS = f"""
INSERT INTO chunks AS c
    (chunk_id, step_id, document_id, kind, ordinal, text, embed_text, embed_sha, n_tokens, occurred_at, tsv)
SELECT chunk_id, step_id, document_id, kind, ordinal, text, embed_text, embed_sha, n_tokens, occurred_at,
    {TSVECTOR}
FROM jsonb_to_recordset($1::jsonb) AS r(
    chunk_id uuid, step_id uuid, document_id uuid, kind text, ordinal int, text text, embed_text text, embed_sha text,
    n_tokens int, occurred_at timestamptz, title text, section text, words text)
ON CONFLICT (chunk_id) DO UPDATE SET
    kind = excluded.kind, text = excluded.text, embed_text = excluded.embed_text, embed_sha = excluded.embed_sha,
    n_tokens = excluded.n_tokens, occurred_at = excluded.occurred_at, tsv = excluded.tsv
WHERE (c.kind, c.text, c.embed_sha, c.occurred_at, c.tsv)
    IS DISTINCT FROM (excluded.kind, excluded.text, excluded.embed_sha, excluded.occurred_at, excluded.tsv)
"""  # noqa: S608 - a fixed expression

UPSERT_VECTORS = """
INSERT INTO {table} (chunk_id, kind, occurred_at, fingerprint, embedding) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (chunk_id) DO UPDATE SET
    kind = excluded.kind, occurred_at = excluded.occurred_at, fingerprint = excluded.fingerprint,
    embedding = excluded.embedding
"""

DELETE_VECTORS = "DELETE FROM {table} WHERE chunk_id = ANY($1::uuid[])"

GROW_EPOCH = "UPDATE corpus_state SET epoch = epoch + 1"


def stub_rows(parts: Iterable[PreparedPart]) -> str:
    """Rows of INSERT_STUBS."""
    return _json(
        {
            "document_id": part.write.document_id,
            "kind": part.write.kind,
            "source": part.write.source,
            "external_id": part.write.external_id,
        }
        for part in parts
    )


def part_rows(parts: Iterable[PreparedPart]) -> str:
    """Rows of CLAIM."""
    return _json(
        {
            "document_id": part.write.document_id,
            "part": part.write.part,
            "version": part.write.rank.version,
            "arrived": part.write.rank.arrived,
            "event_id": part.write.rank.event_id,
            "pipeline": PIPELINE,
            "content_sha": part.write.content_sha,
            "deleted": part.write.deleted,
            "count": part.write.count,
            "first_seen": part.write.first_seen,
            "last_seen": part.write.last_seen,
        }
        for part in parts
    )


def document_rows(parts: Iterable[PreparedPart]) -> str:
    """Rows of UPDATE_DOCUMENTS."""
    return _json(
        {
            "document_id": part.write.document_id,
            "main": part.write.part == MAIN_PART,
            "arrived": part.write.rank.arrived,
            "event_id": part.write.rank.event_id,
            "version": part.write.rank.version,
            "kind": part.write.kind,
            "content_sha": part.write.content_sha,
            "deleted": part.write.deleted,
            "occurred_at": part.write.occurred_at,
            "accepted_at": part.write.accepted_at,
            **part.write.facts.__dict__,
        }
        for part in parts
    )


def step_rows(parts: Iterable[PreparedPart]) -> str:
    """Rows of UPSERT_STEPS."""
    return _json(
        {
            "step_id": step.step_id,
            "document_id": part.write.document_id,
            "part": part.write.part,
            "step_number": step.draft.number,
            "label": step.draft.label,
            "section": step.draft.section,
            "body": step.draft.body,
            "line_start": step.draft.line_start,
            "line_end": step.draft.line_end,
            "content_sha": step.content_sha,
            "identifiers": step.identifiers,
        }
        for part in parts
        for step in part.steps or ()
    )


def chunk_rows(parts: Iterable[PreparedPart]) -> str:
    """Rows of UPSERT_CHUNKS."""
    return _json(
        {
            "chunk_id": chunk.chunk_id,
            "step_id": step.step_id,
            "document_id": part.write.document_id,
            "kind": part.write.kind,
            "ordinal": chunk.ordinal,
            "text": chunk.text,
            "embed_text": chunk.embed_text,
            "embed_sha": chunk.embed_sha,
            "n_tokens": chunk.n_tokens,
            "occurred_at": part.write.decays_from,
            **searchable(part.write.facts.title, step.draft.section, chunk.text),
        }
        for part in parts
        for step in part.steps or ()
        for chunk in step.chunks
    )


def _json(rows: Iterable[dict[str, Any]]) -> str:
    return orjson.dumps(list(rows)).decode()
