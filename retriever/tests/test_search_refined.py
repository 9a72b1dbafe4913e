"""A refined query is searched as well, and takes nothing away (pitfall 29)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retriever_corpus import BagEmbedder, Document, Search, bag_of_words, event, write

if TYPE_CHECKING:
    from cairn_shared.postgres import Pool

QUESTION = "PROJ-7 app cannot save anything"
REFINED = "storage volume exhausted"

DISK = Document("disk", "Full", ["Free it."], vector=bag_of_words(REFINED))
OTHERS = [Document(f"other-{i}", f"Topic {i}", [f"About matter number {i}."]) for i in range(80)]
TICKET = event("PROJ-7", "Rotate the keys.", kind="ticket", age_days=300)


async def test_what_only_the_refined_query_is_near_to_is_found(pool: Pool, search: Search) -> None:
    await write(pool, [DISK, *OTHERS])
    alone = await search("app cannot save anything", k=5)
    assert "disk" not in {hit.runbook_id for hit in alone.results}
    both = await search("app cannot save anything", k=5, extra_query=REFINED)
    assert "disk" in {hit.runbook_id for hit in both.results}


async def test_the_identifiers_of_the_question_stay(pool: Pool, search: Search) -> None:
    await write(pool, [TICKET, DISK, *OTHERS])
    found = await search(QUESTION, extra_query=REFINED)
    assert found.results[0].runbook_id == "PROJ-7"
    assert "proj-7" in found.gate.identifiers_found


async def test_the_gate_believes_the_question_only(pool: Pool, search: Search) -> None:
    """Whoever writes the refinement cannot talk the gate into an answer."""
    await write(pool, [DISK, *OTHERS])
    alone = await search("bake bread with raisins")
    both = await search("bake bread with raisins", extra_query=REFINED)
    assert both.gate.confidence == alone.gate.confidence
    assert both.gate.best_coverage == alone.gate.best_coverage


async def test_without_embedder_a_refinement_changes_nothing(pool: Pool, search: Search, embedder: BagEmbedder) -> None:
    embedder.away = True
    await write(pool, [DISK, TICKET, *OTHERS])
    alone, both = await search(QUESTION), await search(QUESTION, extra_query=REFINED)
    assert [hit.step_id for hit in both.results] == [hit.step_id for hit in alone.results]
