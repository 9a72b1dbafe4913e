"""Documents, their parts, steps (what is cited), chunks (what is embedded), the ledger and the corpus state.

Revision ID: 0001
"""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None

SCHEMA = """
CREATE EXTENSION IF NOT EXISTS vector;

-- One row a document, a runbook or what a source told; a deleted one stays as a tombstone.
CREATE TABLE documents (
    document_id      uuid PRIMARY KEY,          -- cairn_shared.events.document_id(source, external_id)
    kind             text NOT NULL,             -- runbook, commit, pull_request, issue, ticket, alert, log ...
    source           text NOT NULL,
    external_id      text NOT NULL,             -- the runbook's id, or the event's subject
    title            text NOT NULL DEFAULT '',
    service          text,
    severity         text,
    owner            text,
    status           text,
    tags             text[] NOT NULL DEFAULT '{}',
    alerts           text[] NOT NULL DEFAULT '{}',   -- case-folded alert names that route here
    links            text[] NOT NULL DEFAULT '{}',   -- case-folded runbook_urls that route here
    labels           jsonb NOT NULL DEFAULT '{}',
    path             text,
    commit_sha       text,
    blob_sha         text,
    url              text,
    version          bigint NOT NULL DEFAULT -1,     -- of the main part; -1 while only other parts arrived
    content_sha      text NOT NULL DEFAULT '',
    deleted          boolean NOT NULL DEFAULT false,
    occurred_at      timestamptz,
    accepted_at      timestamptz,
    indexed_at       timestamptz NOT NULL DEFAULT now(),
    UNIQUE (source, external_id)
);
CREATE INDEX documents_kind ON documents (kind, occurred_at DESC) WHERE NOT deleted;
CREATE INDEX documents_alerts ON documents USING gin (alerts) WHERE NOT deleted;
CREATE INDEX documents_links ON documents USING gin (links) WHERE NOT deleted;

-- The version guard (invariant I3): the last write of each part of a document. A runbook has the part '' only.
CREATE TABLE document_parts (
    document_id      uuid NOT NULL REFERENCES documents,
    part             text NOT NULL,
    version          bigint NOT NULL,
    event_id         uuid NOT NULL,             -- breaks ties between equal versions
    pipeline         text NOT NULL,             -- chunker version; a newer one writes the same version again
    content_sha      text NOT NULL,
    deleted          boolean NOT NULL DEFAULT false,
    count            bigint NOT NULL DEFAULT 1,
    first_seen       timestamptz,
    last_seen        timestamptz,
    PRIMARY KEY (document_id, part)
);

-- What is cited and shown.
CREATE TABLE steps (
    step_id          uuid PRIMARY KEY,
    document_id      uuid NOT NULL REFERENCES documents,
    part             text NOT NULL DEFAULT '',
    step_number      int NOT NULL,
    label            text NOT NULL,
    section          text NOT NULL DEFAULT '',
    body             text NOT NULL,
    line_start       int,
    line_end         int,
    content_sha      text NOT NULL,
    identifiers      text[] NOT NULL DEFAULT '{}',
    UNIQUE (document_id, part, step_number)
);
CREATE INDEX steps_identifiers ON steps USING gin (identifiers);

-- What is embedded and searched: windows of at most 220 tokens over a step.
CREATE TABLE chunks (
    chunk_id         uuid PRIMARY KEY,
    step_id          uuid NOT NULL REFERENCES steps ON DELETE CASCADE,
    document_id      uuid NOT NULL REFERENCES documents,
    kind             text NOT NULL,
    ordinal          int NOT NULL,
    text             text NOT NULL,             -- the window as in the step
    embed_text       text NOT NULL,             -- with its title and section in front: what the vector is of
    embed_sha        text NOT NULL,             -- SHA-256 of embed_text: unchanged chunks keep their vector
    n_tokens         int NOT NULL,
    occurred_at      timestamptz,
    tsv              tsvector NOT NULL,         -- A title, B section, D normalised text, 'english'
    UNIQUE (step_id, ordinal)
);
CREATE INDEX chunks_document ON chunks (document_id);
CREATE INDEX chunks_recent ON chunks (kind, occurred_at DESC);
CREATE INDEX chunks_tsv ON chunks USING gin (tsv);

-- One table per dimension. `kind` is repeated so that the partial index can filter on it.
CREATE TABLE chunk_embeddings_384 (
    chunk_id         uuid PRIMARY KEY REFERENCES chunks ON DELETE CASCADE,
    kind             text NOT NULL,
    occurred_at      timestamptz,
    fingerprint      text NOT NULL,
    embedding        vector(384) NOT NULL
);
CREATE INDEX chunk_embeddings_384_hnsw ON chunk_embeddings_384
    USING hnsw (embedding vector_cosine_ops) WITH (m = 16, ef_construction = 64) WHERE kind <> 'runbook';
CREATE INDEX chunk_embeddings_384_recent ON chunk_embeddings_384 (occurred_at DESC) WHERE kind <> 'runbook';
ALTER TABLE chunks SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE chunk_embeddings_384 SET (autovacuum_vacuum_scale_factor = 0.05);

-- How many chunks hold a lexeme: refreshed from ts_stat, for rarity and pruning.
CREATE TABLE lexeme_df (
    lexeme           text PRIMARY KEY,
    ndoc             int NOT NULL
);

-- A single row: the epoch grows whenever a runbook's searchable content changes (cache key of answers).
CREATE TABLE corpus_state (
    only_row         boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    epoch            bigint NOT NULL DEFAULT 0,
    fingerprint      text,                      -- of the embedding model that searches use
    chunks           bigint NOT NULL DEFAULT 0, -- when lexeme_df was refreshed
    average_length   double precision NOT NULL DEFAULT 0,
    refreshed_at     timestamptz,
    thresholds       jsonb NOT NULL DEFAULT '{}'  -- of the relevance gate, per fingerprint
);
INSERT INTO corpus_state DEFAULT VALUES;

-- What became of each event: searchable, superseded or dead.
CREATE TABLE ingest_ledger (
    event_id         uuid PRIMARY KEY,
    document_id      uuid,
    part             text,
    version          bigint,
    state            text NOT NULL CHECK (state IN ('searchable', 'superseded', 'dead')),
    topic            text NOT NULL,
    partition        int NOT NULL,
    "offset"         bigint NOT NULL,
    accepted_at      timestamptz,
    settled_at       timestamptz NOT NULL DEFAULT now(),
    deliveries       int NOT NULL DEFAULT 1,
    detail           text
);
CREATE INDEX ingest_ledger_settled ON ingest_ledger (settled_at);

-- Attempts that survive a crash: bumped before each try, so that a record which kills the process is caught.
CREATE TABLE ingest_attempts (
    consumer_group   text NOT NULL,
    topic            text NOT NULL,
    partition        int NOT NULL,
    "offset"         bigint NOT NULL,
    attempts         int NOT NULL,
    first_at         timestamptz NOT NULL DEFAULT now(),
    last_at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer_group, topic, partition, "offset")
);
"""


def upgrade() -> None:
    for statement in SCHEMA.split(";\n"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    raise RuntimeError("the first migration cannot be undone: drop the database instead")
