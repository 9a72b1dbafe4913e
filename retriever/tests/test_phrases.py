"""An error message is recognised by its words in a row, whatever it stands among."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from retriever_corpus import Document, write

from cairn_retriever.adapters.sql import quote_phrase
from cairn_retriever.lexical import phrases
from cairn_retriever.model import CorpusState, Lexicon, Phrase, Prepared
from cairn_retriever.policy import CandidatePolicy
from cairn_retriever.vocabulary import PRODUCTS, aliases, products

if TYPE_CHECKING:
    from retriever_corpus import Search

    from cairn_shared.postgres import Pool

LEXICON = Lexicon(
    100, 50.0, dict.fromkeys(["lock", "wait", "timeout", "exceed", "tri", "restart", "mani", "alreadi"], 3)
)
POLICY = CandidatePolicy()


def prepared(*sequence: tuple[int, str], fillers: frozenset[str] = frozenset()) -> Prepared:
    return Prepared(
        state=CorpusState(0, None, 0, 0.0, False, {}, None),
        lexemes=tuple(sorted({lexeme for _, lexeme in sequence})),
        sequence=sequence,
        products=(),
        spellings=(),
        fillers=fillers,
        joined=frozenset(),
        event_frequencies={},
        identifier_documents={},
        routes=(),
    )


def found(*sequence: tuple[int, str], fillers: frozenset[str] = frozenset()) -> list[tuple[str, ...]]:
    return [one.lexemes for one in phrases(prepared(*sequence, fillers=fillers), LEXICON, POLICY)]


class TestPhrases:
    def test_are_runs_of_four_known_lexemes_in_the_order_of_the_text(self) -> None:
        words = ["lock", "wait", "timeout", "exceed", "tri"]
        assert found(*enumerate(words, 1)) == [tuple(words[:4]), tuple(words[1:])]

    def test_pass_over_what_no_runbook_knows_and_keep_the_distance(self) -> None:
        """`within 9120331 transactions`: the amount differs each time."""
        query = prepared((1, "lock"), (2, "wait"), (3, "9120331"), (4, "timeout"), (7, "exceed"))
        assert [one.gaps for one in phrases(query, LEXICON, POLICY)] == [(1, 2, 3)]

    def test_are_no_words_far_apart_and_no_chatter(self) -> None:
        assert found((1, "lock"), (2, "wait"), (3, "timeout"), (40, "exceed")) == []
        chatter = frozenset({"mani", "alreadi", "tri", "restart"})
        assert found(*enumerate(["mani", "alreadi", "tri", "restart"], 1), fillers=chatter) == []

    def test_three_words_are_one_when_nothing_else_is_said(self) -> None:
        assert found(*enumerate(["lock", "wait", "timeout"], 1)) == [("lock", "wait", "timeout")]
        assert found(*enumerate(["lock", "wait"], 1)) == []

    def test_a_whole_query_is_as_rare_as_can_be(self) -> None:
        """`ERROR: deadlock detected` is one message, not three usual words."""
        usual = Lexicon(100, 50.0, {"error": 50, "deadlock": 20, "detect": 30, "again": 40})
        for words, rarity in (
            (["error", "deadlock", "detect"], 1.0),
            (["error", "deadlock", "detect", "again", "error"], 0.3),
        ):
            query = prepared(*enumerate(words, 1))
            assert phrases(query, usual, POLICY)[0].rarity == pytest.approx(rarity, abs=0.1)

    def test_are_so_many_at_most_the_rarest(self) -> None:
        few = replace(POLICY, phrases=1)
        lexicon = Lexicon(100, 50.0, {"common": 60, "lock": 2, "wait": 2, "timeout": 2, "exceed": 2})
        query = prepared(*enumerate(["common", "common", "lock", "wait", "timeout", "exceed"], 1))
        assert [one.lexemes for one in phrases(query, lexicon, few)] == [("lock", "wait", "timeout", "exceed")]

    def test_nothing_in_them_is_an_operator(self) -> None:
        assert quote_phrase(Phrase(("a'b", "c"), (2,), 1.0)) == "'a''b' <2> 'c'"


MESSAGE = "Applications log `FATAL: sorry, too many clients already` when all slots are taken."
PAGES = [
    Document("sessions", "PostgreSQL sessions", ["Look who holds them.", MESSAGE]),
    Document("clients", "Redis clients", ["Too many clients: already told. Sorry, that is fatal."]),
    *(Document(f"other-{number}", f"Topic {number}", [f"Matter {number} of the clients."]) for number in range(6)),
]
LINE = "FATAL:  sorry, too many clients already"


@pytest.mark.parametrize(
    "query",
    [
        LINE,
        f"[checkout-api-7d9f8b6c5-x2x9k] {LINE}",
        f"INFO GET /api/v1/orders 200 12ms\n{LINE}\nINFO GET /api/v1/carts 200 9ms",
        f"hey, customer ACME is shouting since ten minutes, srv12 is red: {LINE} thx @john",
    ],
)
async def test_a_message_is_found_and_answered_whatever_is_around_it(pool: Pool, search: Search, query: str) -> None:
    await write(pool, PAGES)
    answer = await search(query, mode="keyword")
    assert (answer.results[0].runbook_id, answer.gate.enough) == ("sessions", True)


async def test_the_same_words_in_another_order_are_no_message(pool: Pool, search: Search) -> None:
    await write(pool, PAGES)
    answer = await search(
        f"already fatal clients, too many sorry xylophones of {LINE[:5]}", mode="keyword", explain=True
    )
    assert answer.explain is not None
    assert answer.explain["evidence"]["runbooks"]["quoted"] is False


async def test_a_page_about_another_product_is_no_answer(pool: Pool, search: Search) -> None:
    await write(pool, PAGES)
    for query, enough in ((f"postgres: {LINE}", True), (LINE, True), (f"oracle: {LINE}", False)):
        answer = await search(query, mode="keyword")
        assert (answer.results[0].runbook_id, answer.gate.enough) == ("sessions", enough), query


async def test_an_error_code_alone_is_answered(pool: Pool, search: Search) -> None:
    await write(pool, [Document("full", "Slots", ["SQLSTATE 53300 means that no slot is left."]), *PAGES])
    answer = await search("53300", mode="keyword")
    assert (answer.results[0].runbook_id, answer.gate.enough) == ("full", True)


class TestProducts:
    def test_are_known_by_all_their_names(self) -> None:
        assert products("psql on PG, then SQL Server and Valkey") == ("postgresql", "mssql", "redis")
        assert "libpq" in aliases("postgresql")

    def test_are_whole_words(self) -> None:
        assert products("sparkling nats0 redisson mongodbx") == ()

    def test_have_each_name_once(self) -> None:
        names = [name for group in PRODUCTS for name in group]
        assert len(names) == len(set(names))
