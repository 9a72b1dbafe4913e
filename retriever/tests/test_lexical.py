"""BM25 and the choice of words."""

from __future__ import annotations

import uuid

import pytest

from cairn_retriever.lexical import Bm25, idf, selecting, weigh
from cairn_retriever.model import Candidate, CorpusState, Lexicon, Prepared
from cairn_retriever.policy import CandidatePolicy, LexicalPolicy

LEXICON = Lexicon(100, 50.0, {"rare": 2, "common": 60, "usual": 30})
NOTHING = Lexicon(0, 0.0, {})


def candidate(frequencies: tuple[float, ...], length: int = 50, kind: str = "runbook") -> Candidate:
    some = uuid.UUID(int=1)
    return Candidate(
        sources=("runbooks by words",),
        chunk_id=some,
        step_id=some,
        document_id=some,
        kind=kind,
        ordinal=0,
        step_number=1,
        section="",
        occurred_at=None,
        content_sha="",
        identifiers=frozenset(),
        frequencies=frequencies,
        quoted=(),
        length=length,
        cosine=None,
        extra_cosine=None,
        seed_rank=0.0,
    )


def asked(
    *lexemes: str,
    spellings: tuple[tuple[str, ...], ...] = (),
    fillers: frozenset[str] = frozenset(),
    joined: frozenset[str] = frozenset(),
    products: tuple[tuple[str, ...], ...] = (),
) -> Prepared:
    """A query of these lexemes."""
    state = CorpusState(0, None, 0, 0.0, False, {}, None)
    return Prepared(
        state=state,
        lexemes=lexemes,
        sequence=tuple(enumerate(lexemes, 1)),
        products=products,
        spellings=spellings,
        fillers=fillers,
        joined=joined,
        event_frequencies={},
        identifier_documents={},
        routes=(),
    )


def bm25(*lexemes: str, policy: LexicalPolicy = LexicalPolicy()) -> Bm25:
    return Bm25(weigh(asked(*lexemes), LEXICON, LEXICON, 40), LEXICON, LEXICON, policy)


def test_idf_is_never_negative() -> None:
    assert idf(10, 10) > 0
    assert idf(10, 50) > 0


def test_score_is_the_published_formula() -> None:
    scorer = bm25("rare", policy=LexicalPolicy(k1=1.2, b=0.75))
    expected = idf(100, 2) * 3 * 2.2 / (3 + 1.2 * (0.25 + 0.75 * 80 / 50))
    assert scorer.score(candidate((3.0,), length=80)) == pytest.approx(expected)


def test_repeating_a_word_saturates() -> None:
    scorer = bm25("rare")
    once, often, stuffed = (scorer.score(candidate((tf,))) for tf in (1.0, 5.0, 500.0))
    assert once < often < stuffed < 2 * once


def test_rare_words_weigh_more() -> None:
    scorer = bm25("rare", "common")
    assert scorer.score(candidate((1.0, 0.0))) > scorer.score(candidate((0.0, 1.0)))


def test_short_chunks_beat_long_ones_with_the_same_words() -> None:
    scorer = bm25("rare")
    assert scorer.score(candidate((1.0,), length=20)) > scorer.score(candidate((1.0,), length=200))


class TestSubject:
    """What a question is about; the rest may be missing from the page that answers it."""

    def covered(self, prepared: Prepared) -> float:
        """Of a page that holds the word `rare` and no other."""
        lexemes = weigh(prepared, LEXICON, LEXICON, 40)
        page = candidate(tuple(float(one.lexeme == "rare") for one in lexemes))
        return Bm25(lexemes, LEXICON, LEXICON, LexicalPolicy()).coverage([page])

    def test_a_product_that_no_page_has_is_missed_more_than_any_other_word(self) -> None:
        product = self.covered(asked("rare", "kafka", products=(("kafka",),)))
        assert product < 0.6
        assert product < self.covered(asked("rare", "acme")) < 1.0

    def test_fillers_are_not(self) -> None:
        assert self.covered(asked("rare", "sorri", fillers=frozenset({"sorri"}))) == 1.0

    @pytest.mark.parametrize("value", ["1000x", "9216", "deadbeef01", "srv12", "inc12345"])
    def test_unknown_values_are_not(self, value: str) -> None:
        assert self.covered(asked("rare", value)) == 1.0

    def test_the_parts_of_an_unknown_name_stand_for_it(self) -> None:
        assert self.covered(asked("rare", "rarethings", joined=frozenset({"rarethings"}))) == 1.0

    def test_a_known_name_is_missed(self) -> None:
        assert self.covered(asked("rare", "usual", joined=frozenset({"usual"}))) < 1.0

    def test_fillers_alone_are_about_nothing(self) -> None:
        assert self.covered(asked("sorri", fillers=frozenset({"sorri"}))) == 0.0


def test_coverage_counts_words_of_any_chunk_of_the_step_by_rarity() -> None:
    scorer = bm25("rare", "common")
    alone = scorer.coverage([candidate((1.0, 0.0))])
    assert alone == pytest.approx(idf(100, 2) / (idf(100, 2) + idf(100, 60)))
    assert scorer.coverage([candidate((1.0, 0.0)), candidate((0.0, 1.0))]) == pytest.approx(1.0)
    assert scorer.coverage([]) == 0.0


class TestChoiceOfWords:
    def test_common_words_select_nothing_while_rarer_ones_exist(self) -> None:
        lexicon = Lexicon(100, 50.0, {"a": 1, "b": 2, "c": 3, "everywhere": 90})
        words = weigh(asked(*lexicon.frequencies), lexicon, NOTHING, 40)
        assert {one.lexeme for one in selecting(words, "runbook", lexicon, CandidatePolicy())} == {"a", "b", "c"}

    def test_a_question_of_common_words_still_selects(self) -> None:
        words = weigh(asked("common"), LEXICON, NOTHING, 40)
        assert [one.lexeme for one in selecting(words, "runbook", LEXICON, CandidatePolicy())] == ["common"]

    def test_visited_rows_are_bounded(self) -> None:
        lexicon = Lexicon(100_000, 50.0, {f"word{i}": 900 + i for i in range(40)})
        words = weigh(asked(*lexicon.frequencies), lexicon, NOTHING, 40)
        policy = CandidatePolicy(runbook_postings=4_000)
        chosen = selecting(words, "runbook", lexicon, policy)
        assert sum(lexicon.frequency(one.lexeme) for one in chosen) <= 4_000
        assert chosen[0].lexeme == "word0"

    def test_a_word_that_came_a_moment_ago_selects(self) -> None:
        words = weigh(asked("new", "rare"), LEXICON, NOTHING, 40)
        assert {one.lexeme for one in selecting(words, "runbook", LEXICON, CandidatePolicy())} == {"new", "rare"}

    def test_unknown_words_do_not_count_as_rare_ones(self) -> None:
        """They would leave a question with nothing that occurs."""
        words = weigh(asked("new", "newer", "newest", "common"), LEXICON, NOTHING, 40)
        assert "common" in {one.lexeme for one in selecting(words, "runbook", LEXICON, CandidatePolicy())}

    def test_a_long_paste_keeps_its_rarest_known_words(self) -> None:
        words = weigh(asked(*(f"unknown{i}" for i in range(100)), "common", "rare"), LEXICON, NOTHING, 2)
        assert [one.lexeme for one in words] == ["rare", "common"]
