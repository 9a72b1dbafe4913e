"""Words and identifiers in PostgreSQL: pitfalls 1 to 3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from retriever_corpus import BagEmbedder, Document, event, write

from cairn_retriever.adapters.sql import quote_lexeme

if TYPE_CHECKING:
    from retriever_corpus import Search

    from cairn_shared.postgres import Pool

DRAIN = Document(
    "drain",
    "Drain a node",
    [
        "Cordon it first.",
        "Run `kubectl drain NODE --force` when pods without a controller block it.",
        "Rotate the credentials afterwards.",
    ],
)
OTHERS = [Document(f"other-{i}", f"Topic {i}", [f"Something about matter number {i}."]) for i in range(5)]


async def test_a_question_with_an_absent_word_still_finds(pool: Pool, search: Search) -> None:
    """Pitfall 1: joining the words with AND would find nothing."""
    await write(pool, [DRAIN, *OTHERS])
    found = await search("please drain a xylophonic node", mode="keyword")
    assert found.results[0].runbook_id == "drain"


class TestPastedCommands:
    """Pitfall 2."""

    @pytest.mark.parametrize(
        "query",
        [
            "kubectl drain --force",
            "drain -n default or force",
            '"drain" & force | !node',
            "drain: force:* <-> node",
            r"drain \ force \' ''' force",
            "drain OR NOT force AND (node",
            "drain'; DROP TABLE chunks; --",
            "drain ` force ` $(node)",
        ],
    )
    async def test_punctuation_is_no_operator(self, pool: Pool, search: Search, query: str) -> None:
        await write(pool, [DRAIN, *OTHERS])
        found = await search(query, mode="keyword", explain=True)
        assert found.results[0].runbook_id == "drain"
        assert found.explain is not None
        assert "drain" in {one["lexeme"] for one in found.explain["lexemes"]}

    @pytest.mark.parametrize("lexeme", ["don't", "a\\b", "x | !y", "(", "'", "\\'", "a:*", "ü & <->"])
    async def test_a_lexeme_matches_itself_and_nothing_else(self, pool: Pool, lexeme: str) -> None:
        query = "SELECT array_to_tsvector($1::text[]) @@ $2::text::tsquery"
        assert await pool.fetchval(query, ["other", lexeme], quote_lexeme(lexeme))
        assert not await pool.fetchval(query, ["other", "a", "b", "x"], quote_lexeme(lexeme))

    async def test_a_flag_is_wanted_not_excluded(self, pool: Pool, search: Search) -> None:
        """websearch_to_tsquery would read --force as "not force"."""
        await write(pool, [DRAIN, *OTHERS])
        found = await search("kubectl drain --force", mode="keyword")
        assert "--force" in found.results[0].text

    async def test_any_text_is_safe(self, pool: Pool, search: Search) -> None:
        await write(pool, [DRAIN, *OTHERS])

        @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
        @given(
            st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=300),
            st.lists(st.sampled_from("-!&|:*()<>'\"\\%@[]{}~^ \n"), max_size=40),
        )
        def check(text: str, marks: list[str]) -> None:
            queries.append(f"drain {text} {''.join(marks)} force")

        queries: list[str] = []
        check()
        for query in queries:
            found = await search(query, mode="keyword")
            assert found.results[0].runbook_id == "drain", query

    async def test_twenty_kilobytes_of_log(self, pool: Pool, search: Search) -> None:
        await write(pool, [DRAIN, *OTHERS])
        lines = [
            f"2026-01-01T00:00:00Z pod-{i:04x} <error> can't reach 10.0.{i % 256}.1:9092 path=/a/{i}"
            for i in range(260)
        ]
        paste = "\n".join([*lines, "how do I drain the node?"])
        assert len(paste) > 20_000
        assert (await search(paste, mode="keyword")).results[0].runbook_id == "drain"
        assert "drain" in {hit.runbook_id for hit in (await search(paste)).results}


class TestIdentifiers:
    """Pitfall 3."""

    @pytest.mark.parametrize(
        ("query", "body", "decoys"),
        [
            ("PROJ-12", "Fixed in PROJ-12.", ["Fixed in PROJ-123.", "Fixed in XPROJ-12.", "Project 12 is late."]),
            ("PROJ-123", "Fixed in PROJ-123.", ["Fixed in PROJ-12.", "PROJ-1234 is open."]),
            ("what is ORA-00600", "The server says ORA-00600.", ["The server says ORA-00601.", "It says ORA 00."]),
            (
                "test_login_timeout fails",
                "test_login_timeout is flaky.",
                ["Login test timeout.", "test_login_timeout_2"],
            ),
            ("v1.2.3", "Broken since v1.2.3.", ["Broken since v1.2.30.", "Broken since v1.12.3."]),
            ("/etc/x.conf", "Edit /etc/x.conf.", ["Edit /etc/xx.conf.", "Edit /etc/y.conf, x marks the spot."]),
            ("foo.png", "It shows foo.png.", ["It shows foo.", "It shows foo2.png."]),
            ("feature/PROJ-123-x", "Built from feature/PROJ-123-x.", ["Built from feature/PROJ-124-x."]),
            ("deadbeef12", "Deployed deadbeef12.", ["Deployed deadbeef13."]),
        ],
    )
    async def test_the_one_that_holds_it_verbatim_is_first(
        self, pool: Pool, search: Search, query: str, body: str, decoys: list[str]
    ) -> None:
        documents = [event("gold", body, kind="ticket", age_days=900)]
        documents += [event(f"decoy-{i}", decoy, kind="ticket") for i, decoy in enumerate(decoys)]
        await write(pool, [*documents, *OTHERS])
        for mode in ("hybrid", "keyword"):
            assert (await search(query, mode=mode)).results[0].runbook_id == "gold"

    async def test_a_longer_number_is_another_ticket(self, pool: Pool, search: Search) -> None:
        await write(pool, [event("longer", "Fixed in PROJ-123.", kind="ticket")])
        found = await search("PROJ-12")
        assert found.gate.identifiers_asked == ["proj-12"]
        assert found.gate.identifiers_found == []

    @pytest.mark.parametrize("kind", ["runbook", "ticket"])
    async def test_every_row_of_the_identifier_table(self, pool: Pool, search: Search, kind: str) -> None:
        """`data/eval/identifiers.jsonl`: each row has documents of its own, which differ by a character or a prefix."""
        file = Path(__file__).parents[2] / "data" / "eval" / "identifiers.jsonl"
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        documents = [
            Document(one["id"], one["title"], [one["body"]], kind, source=row["id"])
            for row in rows
            for one in row["documents"]
        ]
        await write(pool, documents)
        wrong = []
        for row in rows:
            found = await search(row["question"], filters={"source": row["id"]})
            if found.results[0].runbook_id != row["expect"]:
                wrong.append((row["id"], row["question"], found.results[0].runbook_id))
        assert wrong == []


async def test_keyword_search_needs_no_embedder(pool: Pool, search: Search, embedder: BagEmbedder) -> None:
    embedder.away = True
    await write(pool, [DRAIN, *OTHERS])
    found = await search("drain a node", mode="keyword")
    assert found.results[0].runbook_id == "drain"
    assert found.degraded == []


@pytest.mark.parametrize("mode", ["hybrid", "semantic"])
async def test_without_embedder_words_answer_and_it_says_so(
    pool: Pool, search: Search, embedder: BagEmbedder, mode: str
) -> None:
    embedder.away = True
    await write(pool, [DRAIN, *OTHERS])
    found = await search("drain a node", mode=mode)
    assert found.results[0].runbook_id == "drain"
    assert found.degraded == ["embedder"]
    assert found.gate.best_cosine is None
