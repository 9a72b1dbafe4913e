"""Halted partitions: why consumption stopped, for the workbench, and that somebody released it, for the consumer.

Revision ID: 0007
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Create the table."""
    op.execute(
        """
        CREATE TABLE ingest_halts (
            consumer_group   text NOT NULL,
            topic            text NOT NULL,
            partition        int NOT NULL,
            reason           text NOT NULL,
            halted_at        timestamptz NOT NULL DEFAULT now(),
            seen_at          timestamptz NOT NULL DEFAULT now(),  -- its consumer says again and again that it is
            released_at      timestamptz,
            released_by      text,
            PRIMARY KEY (consumer_group, topic, partition)
        )
        """
    )


def downgrade() -> None:
    """Drop it."""
    op.execute("DROP TABLE ingest_halts")
