"""Damage to the index that its own hashes do not tell: what the retriever's report says, and `cairn verify` compares."""

from __future__ import annotations

import pytest
from index_state import Index
from ingest_fakes import runbook, upserted

from cairn_retriever.adapters.postgres_reports import PostgresReports
from cairn_shared.api.index import IndexedDocument
from cairn_shared.postgres import Pool

TEXT = "Restart redis-7 with `systemctl restart redis@7` when MISCONF shows.\n\n" + "word " * 300


@pytest.fixture
def index(pool: Pool) -> Index:
    return Index(pool)


async def reported(index: Index, *, words: bool = True) -> IndexedDocument:
    (document,) = (await PostgresReports(index.pool).documents(None, None, None, 10, words=words)).documents
    return document


async def test_what_the_consumer_wrote_is_as_it_should_be(index: Index) -> None:
    await index.apply(upserted(runbook("r", TEXT, "Line one.\nLine two of `/etc/x.conf`."), 1))
    found = await reported(index)
    assert (found.altered_steps, found.altered_chunks, found.broken_vectors) == (0, 0, 0)
    assert found.chunks > 2


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("UPDATE chunks SET text = 'x'", False),
        ("UPDATE chunks SET text = text || ' and then rm -rf /'", False),
        ("UPDATE chunks SET tsv = ''", True),
        ("UPDATE chunks SET tsv = to_tsvector('english', 'other words')", True),
        ("UPDATE steps SET identifiers = '{}'", True),
        ("UPDATE steps SET identifiers = identifiers || '{another}'", True),
    ],
)
async def test_altered_words_and_texts_are_counted(index: Index, damage: str, words: bool) -> None:
    await index.apply(upserted(runbook("r", TEXT), 1))
    await index.pool.execute(damage)
    found = await reported(index)
    assert found.altered_steps + found.altered_chunks > 0
    without = await reported(index, words=False)
    assert bool(without.altered_steps + without.altered_chunks) is not words


@pytest.mark.parametrize(
    "change",
    ["alerts = '{x}'", "links = '{x}'", "tags = '{x}'", "labels = '{}'", "service = 'x'", "severity = 'x'", "url = 'x'",
     "owner = 'x'", "path = 'x'", "commit_sha = 'x'", "blob_sha = 'x'"],
)  # fmt: skip
async def test_facts_are_told(index: Index, change: str) -> None:
    await index.apply(upserted(runbook("r", "Look."), 1))
    before = await reported(index)
    await index.pool.execute(f"UPDATE documents SET {change}")
    assert before.facts is not None
    assert (await reported(index)).facts != before.facts
