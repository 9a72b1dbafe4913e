from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from cairn_shared.kafka.offsets import OffsetTracker


@given(
    start=st.integers(0, 50),
    gaps=st.lists(st.integers(1, 3), max_size=30),
    order=st.randoms(use_true_random=False),
    finished_share=st.floats(0, 1),
)
def test_everything_below_the_frontier_is_finished_and_the_frontier_is_not(
    start: int, gaps: list[int], order: object, finished_share: float
) -> None:
    offsets = [start + sum(gaps[:i]) for i in range(len(gaps))]
    tracker = OffsetTracker(start)
    for offset in offsets:
        tracker.hand_out(offset)
    finished = list(offsets)
    order.shuffle(finished)  # type: ignore[attr-defined]
    finished = finished[: int(len(finished) * finished_share)]
    for offset in finished:
        tracker.finish([offset])
    open_offsets = sorted(set(offsets) - set(finished))
    assert tracker.unfinished() == open_offsets
    expected = open_offsets[0] if open_offsets else (offsets[-1] + 1 if offsets else start)
    assert tracker.frontier == expected


@given(offsets=st.lists(st.integers(0, 20), min_size=1, unique=True).map(sorted), again=st.lists(st.integers(0, 20)))
def test_finishing_twice_or_finishing_strangers_changes_nothing(offsets: list[int], again: list[int]) -> None:
    tracker = OffsetTracker()
    for offset in offsets:
        tracker.hand_out(offset)
    tracker.finish(offsets)
    tracker.finish(again)
    assert tracker.frontier == offsets[-1] + 1


def test_the_frontier_says_whether_it_moved() -> None:
    tracker = OffsetTracker(0)
    for offset in (0, 1, 2):
        tracker.hand_out(offset)
    assert not tracker.finish([1])
    assert tracker.finish([0])
    assert tracker.frontier == 2


def test_an_offset_below_one_seen_before_is_refused() -> None:
    tracker = OffsetTracker(5)
    with pytest.raises(ValueError, match="offset 4"):
        tracker.hand_out(4)


def test_the_end_of_the_log_moves_the_frontier_over_gaps_but_never_over_open_records() -> None:
    tracker = OffsetTracker(0)
    tracker.reached_end(4)
    assert tracker.frontier == 4
    tracker.hand_out(4)
    tracker.reached_end(9)
    assert tracker.frontier == 4
    tracker.finish([4])
    assert tracker.frontier == 9
