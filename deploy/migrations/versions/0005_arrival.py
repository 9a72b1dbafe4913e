"""When the last write of a part reached Cairn: it decides between writes of one version.

Revision ID: 0005
"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Parts from before count as the earliest of their version: what comes next is later."""
    op.execute("ALTER TABLE document_parts ADD COLUMN arrived bigint NOT NULL DEFAULT 0")


def downgrade() -> None:
    """Ids of events decide again."""
    op.execute("ALTER TABLE document_parts DROP COLUMN arrived")
