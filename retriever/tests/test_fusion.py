"""Scores of two retrievers as one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cairn_retriever.fusion import rrf, seed, tm2c2
from cairn_retriever.policy import FusionPolicy

COSINES = st.lists(st.one_of(st.none(), st.floats(-1, 1)), min_size=1, max_size=30)


class TestConvexCombination:
    def test_best_of_both_scores_one(self) -> None:
        assert tm2c2([0.9, 0.1], [12.0, 3.0], 0.8)[0] == pytest.approx(1.0)

    def test_worst_candidate_is_not_pushed_to_nothing(self) -> None:
        """Plain min-max would give the last one 0 however near it is to the first."""
        assert tm2c2([0.9, 0.89], [0.0, 0.0], 1.0)[1] > 0.99

    def test_lone_candidate_without_words_earns_nothing_for_them(self) -> None:
        assert tm2c2([0.2], [0.0], 0.8) == [pytest.approx(0.8)]

    def test_missing_vector_counts_as_opposite(self) -> None:
        assert tm2c2([None, 0.5], [1.0, 1.0], 1.0) == [0.0, 1.0]

    def test_no_vectors_at_all_leave_the_words(self) -> None:
        assert tm2c2([None, None], [2.0, 1.0], 0.0) == [1.0, 0.5]

    @given(cosines=COSINES, alpha=st.floats(0, 1), words=st.lists(st.floats(0, 1e6), min_size=30, max_size=30))
    def test_scores_are_shares(self, cosines: list[float | None], alpha: float, words: list[float]) -> None:
        scores = tm2c2(cosines, words[: len(cosines)], alpha)
        assert all(0.0 <= score <= 1.0 + 1e-9 for score in scores)


class TestReciprocalRanks:
    def test_first_of_both_scores_one(self) -> None:
        assert rrf([0.9, 0.1], [5.0, 1.0], 60)[0] == pytest.approx(1.0)

    def test_equal_scores_share_a_rank(self) -> None:
        assert len(set(rrf([0.5, 0.5, 0.5], [1.0, 1.0, 1.0], 60))) == 1

    def test_what_no_list_found_scores_nothing(self) -> None:
        assert rrf([None, 0.4], [0.0, 2.0], 60)[0] == 0.0

    def test_an_empty_list_does_not_halve_the_other(self) -> None:
        assert rrf([None, None], [2.0, 1.0], 60)[0] == pytest.approx(1.0)


class TestFirstPrototype:
    def test_is_the_formula(self) -> None:
        expected = (0.7 * 0.6 + 0.3 * 0.1) * math.exp(-0.05 * 10)
        assert seed([0.6], [0.1], [10.0], FusionPolicy()) == [pytest.approx(expected)]

    def test_runbooks_do_not_age(self) -> None:
        assert seed([0.6], [0.0], [None], FusionPolicy()) == [pytest.approx(0.42)]
