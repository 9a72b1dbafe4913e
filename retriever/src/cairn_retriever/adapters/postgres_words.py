"""Whether what searches look words up in is still what the texts say: identifiers of steps, and lexemes of chunks.

Both are made from the texts by Python (`cairn_shared.searchable`), so a look at the columns alone does not tell. They
are made again as the consumer makes them: half a second for each MB of text, which is why only a verify asks for it.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from cairn_shared.searchable import TSVECTOR, searchable, step_identifiers

if TYPE_CHECKING:
    from cairn_shared.postgres import Connection

# Steps of events have identifiers from outside their text as well (`mentions`), which the index does not keep.
STEPS = """
SELECT s.document_id, s.section, s.body, s.identifiers FROM steps s JOIN documents d USING (document_id)
WHERE s.document_id = ANY($1::uuid[]) AND d.kind = 'runbook'
"""

CHUNKS = """
SELECT c.chunk_id, d.title, s.section, c.text
FROM chunks c JOIN steps s USING (step_id) JOIN documents d ON d.document_id = c.document_id
WHERE c.document_id = ANY($1::uuid[]) AND d.kind = 'runbook'
"""

OTHER_LEXEMES = f"""
SELECT c.document_id, count(*) AS n
FROM chunks c JOIN jsonb_to_recordset($1::jsonb) AS r(chunk_id uuid, title text, section text, words text)
    USING (chunk_id)
WHERE c.tsv <> ({TSVECTOR})
GROUP BY c.document_id
"""  # noqa: S608 - a fixed expression


@dataclass(frozen=True)
class OtherWords:
    """How many steps have identifiers, and chunks lexemes, of another text, by document."""

    steps: Counter[uuid.UUID]
    chunks: Counter[uuid.UUID]


async def other_words(connection: Connection, document_ids: Sequence[uuid.UUID]) -> OtherWords:
    """Read within the caller's snapshot; the texts are gone through in a thread, for searches wait for nobody."""
    steps = await connection.fetch(STEPS, document_ids)
    chunks = await connection.fetch(CHUNKS, document_ids)
    wrong_steps = await asyncio.to_thread(_with_other_identifiers, steps)
    rows = await asyncio.to_thread(_searchable, chunks)
    wrong_chunks = await connection.fetch(OTHER_LEXEMES, rows)
    return OtherWords(wrong_steps, Counter({row["document_id"]: row["n"] for row in wrong_chunks}))


def _with_other_identifiers(steps: Sequence[Any]) -> Counter[uuid.UUID]:
    return Counter(
        step["document_id"]
        for step in steps
        if tuple(step["identifiers"]) != step_identifiers(step["section"], step["body"])
    )


def _searchable(chunks: Sequence[Any]) -> str:
    return orjson.dumps(
        [
            {"chunk_id": str(chunk["chunk_id"]), **searchable(chunk["title"], chunk["section"], chunk["text"])}
            for chunk in chunks
        ]
    ).decode()
