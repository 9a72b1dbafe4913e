"""What searches need: each half of the corpus (runbooks, events) has its own indexes; tsvectors are read in place.

Revision ID: 0002
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"

SCHEMA = """
-- Words: every search names its half, so the index over both is not used any more.
CREATE INDEX chunks_tsv_runbooks ON chunks USING gin (tsv) WHERE kind = 'runbook';
CREATE INDEX chunks_tsv_events ON chunks USING gin (tsv) WHERE kind <> 'runbook';
DROP INDEX chunks_tsv;

-- Vectors of runbooks are compared one by one: this finds them among those of the events.
CREATE INDEX chunk_embeddings_384_runbooks ON chunk_embeddings_384 (chunk_id) WHERE kind = 'runbook';

-- Names that route: a runbook's title, and its file's name without folder and extension.
CREATE INDEX documents_title ON documents (lower(title)) WHERE kind = 'runbook' AND NOT deleted;
CREATE INDEX documents_file ON documents (lower(regexp_replace(path, '^.*/|\\.[^./]*$', '', 'g')))
    WHERE kind = 'runbook' AND NOT deleted;

-- Filters.
CREATE INDEX documents_source ON documents (source, kind) WHERE NOT deleted;
CREATE INDEX documents_service ON documents (service, kind) WHERE NOT deleted;
CREATE INDEX chunks_events_recent ON chunks (occurred_at DESC) WHERE kind <> 'runbook';

-- A search reads the tsvector of thousands of rows: in the row it costs 1 microsecond, compressed beside it 5.
ALTER TABLE chunks SET (toast_tuple_target = 8160);

-- How often an event was told: equal steps are folded.
CREATE INDEX steps_content ON steps (content_sha)
"""


def upgrade() -> None:
    for statement in SCHEMA.split(";\n"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    raise RuntimeError("searches need these indexes: there is no way back")
