"""Questions that a model made of runbooks lead to their step; they are shown nowhere, and move no gate."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from retriever_corpus import FINGERPRINT, BagEmbedder, Document, Search, bag_of_words, write

if TYPE_CHECKING:
    from cairn_shared.postgres import Pool

MADE = "app cannot save anything"
DISK = Document("disk", "Full", ["Look.", "Free it."])
OTHERS = [Document(f"other-{i}", f"Topic {i}", [f"About matter number {i}."]) for i in range(80)]


async def expand(pool: Pool, external_id: str, step: int, question: str, fingerprint: str = FINGERPRINT) -> None:
    """As the consumer writes it."""
    row = await pool.fetchrow(
        "SELECT d.document_id, d.content_sha, s.step_id FROM documents d JOIN steps s USING (document_id)"
        " WHERE d.external_id = $1 AND s.step_number = $2",
        external_id,
        step,
    )
    assert row is not None
    expansion = uuid.uuid4()
    await pool.execute(
        "INSERT INTO expansion_runs (document_id, content_sha, done_at) VALUES ($1, $2, now()) ON CONFLICT DO NOTHING",
        row["document_id"],
        row["content_sha"],
    )
    await pool.execute(
        "INSERT INTO expansions VALUES ($1, $2, $3, $4)", expansion, row["document_id"], row["step_id"], question
    )
    vector = bag_of_words(question)
    if fingerprint != FINGERPRINT:
        vector = vector[:100]
    await pool.execute("INSERT INTO expansion_vectors VALUES ($1, $2, $3::halfvec)", expansion, fingerprint, vector)


@pytest.fixture
async def index(pool: Pool) -> None:
    await write(pool, [DISK, *OTHERS])


@pytest.mark.usefixtures("index")
async def test_a_question_in_other_words_is_led_to_the_step(pool: Pool, search: Search) -> None:
    alone = await search(MADE, k=5)
    assert "disk" not in {hit.runbook_id for hit in alone.results}
    await expand(pool, "disk", 2, MADE)
    led = await search(MADE, k=5)
    best = led.results[0]
    assert (best.runbook_id, best.step, best.text) == ("disk", 2, "Free it.")
    assert MADE not in led.model_dump_json(exclude={"explain"})


@pytest.mark.usefixtures("index")
async def test_the_gate_believes_the_question_and_the_page_only(pool: Pool, search: Search) -> None:
    alone = await search(MADE, k=5)
    await expand(pool, "disk", 2, MADE)
    led = await search(MADE, k=5)
    assert led.gate == alone.gate


@pytest.mark.usefixtures("index")
async def test_vectors_of_another_model_are_not_compared(pool: Pool, search: Search) -> None:
    alone = await search(MADE, k=5)
    await expand(pool, "disk", 2, MADE, "another@1")
    after = await search(MADE, k=5)
    assert [hit.step_id for hit in after.results] == [hit.step_id for hit in alone.results]


@pytest.mark.usefixtures("index")
async def test_filters_hold_and_words_alone_do_without(pool: Pool, search: Search, embedder: BagEmbedder) -> None:
    await expand(pool, "disk", 2, MADE)
    elsewhere = await search(MADE, k=5, filters={"source": "nowhere"})
    assert elsewhere.results == []
    embedder.away = True
    without = await search(MADE, k=5)
    assert "disk" not in {hit.runbook_id for hit in without.results}
