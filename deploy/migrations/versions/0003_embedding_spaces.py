"""Embedding spaces: the vectors of one model, in a table of their own; another model is filled beside and switched to.

Revision ID: 0003
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"

# What is asked of the space in use is always `corpus_state.fingerprint`: one truth, switched in one statement.
TABLE = """
CREATE TABLE embedding_spaces (
    fingerprint      text PRIMARY KEY,
    model            text NOT NULL,             -- its name, for people
    dimension        int NOT NULL CHECK (dimension BETWEEN 1 AND 4000),
    table_name       text UNIQUE CHECK (table_name ~ '^chunk_embeddings_[0-9]+(_[0-9a-f]{12})?$'),
                                                -- null: dropped, and not to be made again unless it is asked for
    started_at       timestamptz NOT NULL DEFAULT now(),
    completed_at     timestamptz,               -- when it was complete and searches began to use it
    retired_at       timestamptz,               -- when searches left it; null again when it is asked back
    problem          text                       -- why it does not get complete
)
"""

STATES = """
CREATE VIEW embedding_space_states AS
SELECT s.*, CASE WHEN s.fingerprint = c.fingerprint THEN 'active'
                 WHEN s.table_name IS NULL THEN 'dropped'
                 WHEN s.retired_at IS NOT NULL THEN 'retired' ELSE 'building' END AS state
FROM embedding_spaces s CROSS JOIN corpus_state c
"""

# The only template. Above 512 dimensions a vector of 4-byte floats would leave its row (TOAST), which every comparison
# pays for and no plan counts; halfvec stays in it, and its HNSW index takes up to 4000 dimensions.
CREATE_TABLE = """
CREATE FUNCTION create_embedding_table(new_table text, new_dimension int) RETURNS void
LANGUAGE plpgsql AS $body$
DECLARE
    type_name text = CASE WHEN new_dimension <= 512 THEN 'vector' ELSE 'halfvec' END;
BEGIN
    EXECUTE format(
        'CREATE TABLE %I (chunk_id uuid PRIMARY KEY REFERENCES chunks ON DELETE CASCADE, kind text NOT NULL,
            occurred_at timestamptz, fingerprint text NOT NULL, embedding %s(%s) NOT NULL)
            WITH (autovacuum_vacuum_scale_factor = 0.05)', new_table, type_name, new_dimension);
    EXECUTE format(
        'CREATE INDEX %I ON %I USING hnsw (embedding %s_cosine_ops) WITH (m = 16, ef_construction = 64)
            WHERE kind <> ''runbook''', new_table || '_hnsw', new_table, type_name);
    EXECUTE format(
        'CREATE INDEX %I ON %I (occurred_at DESC) WHERE kind <> ''runbook''', new_table || '_recent', new_table);
    EXECUTE format('CREATE INDEX %I ON %I (chunk_id) WHERE kind = ''runbook''', new_table || '_runbooks', new_table);
END
$body$
"""

# Services call the three below; their owner is who migrates, so that services need no right to create tables. Writers
# hold the lock `cairn.spaces` shared: what spaces there are, and which one is in use, never changes within their
# transaction.
GIVE_TABLE = """
CREATE FUNCTION give_embedding_table(new_fingerprint text, new_dimension int) RETURNS text
LANGUAGE plpgsql AS $body$
DECLARE
    new_table text = 'chunk_embeddings_' || new_dimension;
BEGIN
    IF new_dimension NOT IN (384, 768) OR EXISTS (SELECT FROM embedding_spaces WHERE table_name = new_table) THEN
        new_table = new_table || '_' || left(encode(sha256(convert_to(new_fingerprint, 'UTF8')), 'hex'), 12);
        PERFORM create_embedding_table(new_table, new_dimension);
    END IF;
    EXECUTE format('ALTER TABLE %I ADD CONSTRAINT one_model CHECK (fingerprint = %L)', new_table, new_fingerprint);
    RETURN new_table;
END
$body$
"""

# A model that was never seen gets its table, and the index, when that is nobody's yet.
OPEN = """
CREATE FUNCTION open_embedding_space(new_fingerprint text, new_model text, new_dimension int) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $body$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('cairn.spaces'));
    IF EXISTS (SELECT FROM embedding_spaces WHERE fingerprint = new_fingerprint) THEN
        RETURN;
    END IF;
    INSERT INTO embedding_spaces (fingerprint, model, dimension, table_name) VALUES
        (new_fingerprint, new_model, new_dimension, give_embedding_table(new_fingerprint, new_dimension));
    UPDATE corpus_state SET fingerprint = new_fingerprint WHERE fingerprint IS NULL;
    IF FOUND THEN
        UPDATE embedding_spaces SET completed_at = now() WHERE fingerprint = new_fingerprint;
    END IF;
END
$body$
"""

# Asked back: it is completed and switched to again, as if its model were new.
USE = """
CREATE FUNCTION use_embedding_space(old_fingerprint text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $body$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('cairn.spaces'));
    UPDATE embedding_spaces SET
        retired_at = NULL, table_name = coalesce(table_name, give_embedding_table(fingerprint, dimension))
    WHERE fingerprint = old_fingerprint;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no embedding space %', old_fingerprint USING ERRCODE = 'no_data_found';
    END IF;
END
$body$
"""

DROP = """
CREATE FUNCTION drop_embedding_space(old_fingerprint text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $body$
DECLARE
    old_table text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('cairn.spaces'));
    IF EXISTS (SELECT FROM corpus_state WHERE fingerprint = old_fingerprint) THEN
        RAISE EXCEPTION 'searches use the embedding space %', old_fingerprint USING ERRCODE = 'object_in_use';
    END IF;
    SELECT table_name INTO old_table FROM embedding_spaces WHERE fingerprint = old_fingerprint;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no embedding space %', old_fingerprint USING ERRCODE = 'no_data_found';
    END IF;
    IF old_table IN ('chunk_embeddings_384', 'chunk_embeddings_768') THEN
        EXECUTE format('TRUNCATE %I', old_table);
        EXECUTE format('ALTER TABLE %I DROP CONSTRAINT one_model', old_table);
    ELSIF old_table IS NOT NULL THEN
        EXECUTE format('DROP TABLE %I', old_table);
    END IF;
    UPDATE embedding_spaces SET table_name = NULL, retired_at = coalesce(retired_at, now()), problem = NULL
    WHERE fingerprint = old_fingerprint;
END
$body$
"""

# An index from before this migration: its table becomes the space of its model. Vectors of another model, which the
# consumer refused to write, are put right by it once they are gone.
ADOPT = """
DELETE FROM chunk_embeddings_384 WHERE fingerprint IS DISTINCT FROM (SELECT fingerprint FROM corpus_state);
SELECT open_embedding_space(fingerprint, split_part(fingerprint, '@', 1), 384)
FROM corpus_state WHERE fingerprint IS NOT NULL;
UPDATE embedding_spaces SET completed_at = now()
"""


def upgrade() -> None:
    for statement in (TABLE, STATES, CREATE_TABLE, GIVE_TABLE, OPEN, USE, DROP):
        op.execute(statement)
    op.execute("SELECT create_embedding_table('chunk_embeddings_768', 768)")
    for statement in ADOPT.split(";\n"):
        op.execute(statement)


def downgrade() -> None:
    raise RuntimeError("the vectors of other models would be lost: there is no way back")
