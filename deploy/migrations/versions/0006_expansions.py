"""Questions that a runbook answers, made by a model: beside the index, for searches to be led by, never shown.

Revision ID: 0006
"""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"

# A run belongs to one content of its document: the write that changes the content deletes it, and with it all that was
# made of the former one, in the same transaction. No foreign key to documents: rows are put in for many at once, and
# would wait in circles with writers that lock several.
SCHEMA = """
CREATE TABLE expansion_runs (
    document_id      uuid PRIMARY KEY,
    content_sha      text NOT NULL,
    attempts         int NOT NULL DEFAULT 0,
    next_at          timestamptz NOT NULL DEFAULT now(),   -- not before; while one is at it, when others may try
    done_at          timestamptz,
    problem          text
);
CREATE INDEX expansion_runs_waiting ON expansion_runs (next_at) WHERE done_at IS NULL;
CREATE TABLE expansions (
    expansion_id     uuid PRIMARY KEY,
    document_id      uuid NOT NULL REFERENCES expansion_runs ON DELETE CASCADE,
    step_id          uuid NOT NULL REFERENCES steps ON DELETE CASCADE,    -- what answers it
    question         text NOT NULL
);
CREATE INDEX expansions_document ON expansions (document_id);
CREATE INDEX expansions_step ON expansions (step_id);
-- Vectors of every model in one table: they are few, and compared one by one, so no index needs one dimension.
CREATE TABLE expansion_vectors (
    expansion_id     uuid NOT NULL REFERENCES expansions ON DELETE CASCADE,
    fingerprint      text NOT NULL,
    embedding        halfvec NOT NULL,
    PRIMARY KEY (fingerprint, expansion_id)
);
CREATE INDEX expansion_vectors_expansion ON expansion_vectors (expansion_id)
"""


def upgrade() -> None:
    for statement in SCHEMA.split(";\n"):
        op.execute(statement)


def downgrade() -> None:
    for table in ("expansion_vectors", "expansions", "expansion_runs"):
        op.execute(f"DROP TABLE {table}")
