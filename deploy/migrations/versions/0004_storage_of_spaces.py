"""A space may say how its vectors are stored; without a word the number of dimensions decides, as before.

Revision ID: 0004
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"

COLUMN = "ALTER TABLE embedding_spaces ADD COLUMN storage text CHECK (storage IN ('vector', 'halfvec'))"

# The view was made with the columns that there were.
STATES = """
CREATE OR REPLACE VIEW embedding_space_states AS
SELECT s.fingerprint, s.model, s.dimension, s.table_name, s.started_at, s.completed_at, s.retired_at, s.problem,
       CASE WHEN s.fingerprint = c.fingerprint THEN 'active'
            WHEN s.table_name IS NULL THEN 'dropped'
            WHEN s.retired_at IS NOT NULL THEN 'retired' ELSE 'building' END AS state,
       s.storage
FROM embedding_spaces s CROSS JOIN corpus_state c
"""

# pgvector's README, "HNSW": an index takes up to 2,000 dimensions of vector, 4,000 of halfvec.
CREATE_TABLE = """
CREATE OR REPLACE FUNCTION create_embedding_table(new_table text, new_dimension int, new_storage text) RETURNS void
LANGUAGE plpgsql AS $body$
DECLARE
    type_name text = coalesce(new_storage, CASE WHEN new_dimension <= 512 THEN 'vector' ELSE 'halfvec' END);
BEGIN
    IF new_dimension > (CASE type_name WHEN 'vector' THEN 2000 ELSE 4000 END) THEN
        RAISE EXCEPTION 'an index of % takes no % dimensions', type_name, new_dimension
            USING ERRCODE = 'program_limit_exceeded';
    END IF;
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

# The two tables that every database has are of the default types: whoever asks for another gets a table of its own.
GIVE_TABLE = """
CREATE OR REPLACE FUNCTION give_embedding_table(new_fingerprint text, new_dimension int, new_storage text)
RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
    new_table text = 'chunk_embeddings_' || new_dimension;
    is_there boolean = (new_dimension, coalesce(new_storage, 'vector')) = (384, 'vector')
        OR (new_dimension, coalesce(new_storage, 'halfvec')) = (768, 'halfvec');
BEGIN
    IF NOT is_there OR EXISTS (SELECT FROM embedding_spaces WHERE table_name = new_table) THEN
        new_table = new_table || '_' || left(encode(sha256(convert_to(new_fingerprint, 'UTF8')), 'hex'), 12);
        PERFORM create_embedding_table(new_table, new_dimension, new_storage);
    END IF;
    EXECUTE format('ALTER TABLE %I ADD CONSTRAINT one_model CHECK (fingerprint = %L)', new_table, new_fingerprint);
    RETURN new_table;
END
$body$
"""

OPEN = """
CREATE OR REPLACE FUNCTION open_embedding_space(
    new_fingerprint text, new_model text, new_dimension int, new_storage text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $body$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('cairn.spaces'));
    IF EXISTS (SELECT FROM embedding_spaces WHERE fingerprint = new_fingerprint) THEN
        RETURN;
    END IF;
    INSERT INTO embedding_spaces (fingerprint, model, dimension, storage, table_name) VALUES
        (new_fingerprint, new_model, new_dimension, new_storage,
         give_embedding_table(new_fingerprint, new_dimension, new_storage));
    UPDATE corpus_state SET fingerprint = new_fingerprint WHERE fingerprint IS NULL;
    IF FOUND THEN
        UPDATE embedding_spaces SET completed_at = now() WHERE fingerprint = new_fingerprint;
    END IF;
END
$body$
"""

# Who calls it as before gets what it got before.
OPEN_BY_DIMENSION = """
CREATE OR REPLACE FUNCTION open_embedding_space(new_fingerprint text, new_model text, new_dimension int) RETURNS void
LANGUAGE sql AS $body$ SELECT open_embedding_space(new_fingerprint, new_model, new_dimension, NULL) $body$
"""

USE = """
CREATE OR REPLACE FUNCTION use_embedding_space(old_fingerprint text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $body$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('cairn.spaces'));
    UPDATE embedding_spaces SET
        retired_at = NULL, table_name = coalesce(table_name, give_embedding_table(fingerprint, dimension, storage))
    WHERE fingerprint = old_fingerprint;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no embedding space %', old_fingerprint USING ERRCODE = 'no_data_found';
    END IF;
END
$body$
"""

REMOVE = """
DROP FUNCTION give_embedding_table(text, int);
DROP FUNCTION create_embedding_table(text, int)
"""


def upgrade() -> None:
    for statement in (COLUMN, STATES, CREATE_TABLE, GIVE_TABLE, OPEN, OPEN_BY_DIMENSION, USE):
        op.execute(statement)
    for statement in REMOVE.split(";\n"):
        op.execute(statement)


def downgrade() -> None:
    raise RuntimeError("vectors may be stored in ways that the earlier functions do not know: there is no way back")
