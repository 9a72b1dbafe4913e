"""Which runbooks are not told apart."""

from __future__ import annotations

import math
import uuid

from hypothesis import given
from hypothesis import strategies as st

from cairn_retriever.policy import ChoicePolicy
from cairn_retriever.rivals import rivals

POLICY = ChoicePolicy()
PAGES = [uuid.UUID(int=number) for number in range(1, 9)]


def of(*probabilities: float) -> tuple[int, ...]:
    """The pages to choose from, by number, where each has this probability."""
    scores = {page: math.log(one) for page, one in zip(PAGES, probabilities, strict=False)}
    return tuple(page.int for page in rivals(scores, POLICY))


def test_nearly_tied_pages_are_offered_best_first() -> None:
    assert of(0.3, 0.35, 0.32, 0.03) == (2, 3, 1)


def test_one_that_is_well_ahead_is_the_answer() -> None:
    assert of(0.4, 0.19, 0.19, 0.19) == ()
    assert of(0.68, 0.32) == ()


def test_equal_ones_come_in_the_order_of_their_ids_and_not_all_of_them() -> None:
    assert of(*[0.125] * 8) == (1, 2, 3, 4)


def test_one_page_is_no_choice() -> None:
    assert of(1.0) == ()
    assert rivals({}, POLICY) == ()


@given(st.dictionaries(st.sampled_from(PAGES), st.floats(-30, 30), min_size=2), st.floats(-500, 500))
def test_only_differences_count_and_the_best_is_always_among_them(scores: dict[uuid.UUID, float], shift: float) -> None:
    found = rivals(scores, POLICY)
    if found:
        assert scores[found[0]] == max(scores.values())
        assert len(found) > 1
    rounded = {page: round(score, 3) for page, score in scores.items()}
    moved = {page: round(score, 3) + round(shift) for page, score in scores.items()}
    assert len(rivals(rounded, POLICY)) == len(rivals(moved, POLICY))
