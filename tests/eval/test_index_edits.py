"""From Markdown to a search result and back, through the real loader, chunker, embedder, write path and retriever."""

from __future__ import annotations

from typing import Any

import pytest
from eval_index import WHEN, index_events
from eval_run import Retriever, retriever, runbook_of
from eval_sets import Question

from cairn_shared.events import Event, RunbookUpserted, make_event
from cairn_shared.runbooks.markdown import load_runbook


def written(markdown: str, revision: int) -> Event:
    runbook = load_runbook(markdown, runbook_id="failover", path="failover.md")
    return make_event(
        "runbook.upserted",
        source="runbooks",
        source_id=f"failover@{revision}",
        subject="failover",
        version=revision,
        occurred_at=WHEN,
        accepted_at=WHEN,
        payload=RunbookUpserted(runbook=runbook),
    )


async def found(asked: Retriever, text: str, **request: Any) -> list[tuple[int, str]]:
    outcome = await asked.ask(Question("q", "kind", text, "failover"), runbook_of, **request)
    return [(hit.step, hit.text) for hit in outcome.response.results]


FENCING = "Fence the old primary so that it takes no writes."
PROMOTE = "Promote the standby with `pg_ctl promote`."
CHECK = "Check that the standby has replayed everything."


async def test_an_inserted_step_renumbers_those_after_it(postgres_dsn: str, embedder_url: str) -> None:
    """Pitfall 14: no step keeps a number that the file does not give it any more."""
    before = f"# Failover\n\n1. {FENCING}\n2. {PROMOTE}\n"
    after = f"# Failover\n\n1. {FENCING}\n2. {CHECK}\n3. {PROMOTE}\n"
    await index_events(postgres_dsn, embedder_url, [written(before, 1)])
    async with retriever(postgres_dsn, embedder_url) as asked:
        assert (await found(asked, "promote the standby"))[0] == (2, PROMOTE)
        await index_events(postgres_dsn, embedder_url, [written(after, 2)])
        steps = await found(asked, "promote the standby")
        assert steps[0] == (3, PROMOTE)
        assert sorted(steps) == [(1, FENCING), (2, CHECK), (3, PROMOTE)]


@pytest.mark.parametrize("mode", ["keyword", "semantic"])
async def test_the_last_sentence_of_a_long_step_is_found(postgres_dsn: str, embedder_url: str, mode: str) -> None:
    """Pitfall 12: a model that reads 256 tokens would never see the end of the step."""
    filler = " ".join(f"Look at metric number {i} and write its value into the incident channel." for i in range(120))
    long = f"{filler} Finally water the chrysanthemums on the balcony."
    markdown = f"# Failover\n\n1. {FENCING}\n2. {long}\n3. {PROMOTE}\n"
    await index_events(postgres_dsn, embedder_url, [written(markdown, 1)])
    async with retriever(postgres_dsn, embedder_url) as asked:
        steps = await found(asked, "watering the chrysanthemums", mode=mode)
    assert steps[0] == (2, long)


async def test_a_fence_comes_back_whole(postgres_dsn: str, embedder_url: str) -> None:
    """Pitfall 13: what is cut for the model is whole in the result, `#` and all."""
    fence = "```bash\n# not a heading\n" + "".join(f"echo check {i} # note\n" for i in range(150)) + "```"
    markdown = (
        f"# Failover\n\n1. {FENCING}\n2. Run the checks:\n\n   " + fence.replace("\n", "\n   ") + f"\n\n3. {PROMOTE}\n"
    )
    await index_events(postgres_dsn, embedder_url, [written(markdown, 1)])
    async with retriever(postgres_dsn, embedder_url) as asked:
        steps = dict(await found(asked, "run the checks"))
    assert len(steps) == 3
    assert steps[2].count("echo check") == 150
    assert steps[2].count("```") == 2
    assert "# not a heading" in steps[2]
