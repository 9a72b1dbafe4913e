from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given
from ingest_fakes import runbook, source_event, upserted

from cairn_ingest_consumer.collapse import highest, is_news, is_same_content, news
from cairn_ingest_consumer.documents import render
from cairn_ingest_consumer.model import PIPELINE, KnownPart, PartWrite

writes = st.builds(
    lambda subject, part, version, salt: render(
        source_event(subject, version, part=part, body=f"{subject} {part} {version} {salt}", author=salt)
    ),
    st.sampled_from(["A-1", "A-2"]),
    st.sampled_from(["", "c1"]),
    st.integers(0, 4),
    st.sampled_from(["x", "y"]),
)


def known(write: PartWrite, pipeline: str = PIPELINE) -> KnownPart:
    return KnownPart(write.rank, pipeline, write.content_sha, write.deleted)


@given(st.lists(writes, max_size=12), st.randoms(use_true_random=False))
def test_the_highest_write_of_each_part_wins_in_any_order_and_however_often(
    batch: list[PartWrite], order: object
) -> None:
    winners = highest(batch)
    assert winners.keys() == {write.key for write in batch}
    for key, winner in winners.items():
        assert winner.rank == max(write.rank for write in batch if write.key == key)
    shuffled = batch + batch
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert {key: write.rank for key, write in highest(shuffled).items()} == {k: w.rank for k, w in winners.items()}


@given(st.lists(writes, max_size=12))
def test_winners_are_sorted_so_that_locks_are_taken_in_one_order(batch: list[PartWrite]) -> None:
    assert list(highest(batch)) == sorted(highest(batch))


def test_of_one_version_the_later_arrival_wins_whatever_the_ids() -> None:
    for salt in "abcdefgh":  # ids are digests: by them alone half of these would end the other way
        early = render(source_event("A-1", 1, salt=f"{salt}1", body="early").model_copy(update={"arrived": 7}))
        late = render(source_event("A-1", 1, salt=f"{salt}2", body="late").model_copy(update={"arrived": 8}))
        older = render(source_event("A-1", 0, salt=salt, body="older").model_copy(update={"arrived": 9}))
        assert highest([late, older, early]) == highest([early, older, late]) == {late.key: late}


def test_equal_versions_that_came_together_are_ordered_by_event_id() -> None:
    one = render(upserted(runbook("r", "one"), 1, source_id="one"))
    two = render(upserted(runbook("r", "two"), 1, source_id="two"))
    higher = max((one, two), key=lambda write: write.rank)
    assert highest([one, two]) == highest([two, one]) == {higher.key: higher}


def test_news_is_a_higher_rank_or_the_same_from_a_newer_pipeline() -> None:
    old, new = (render(upserted(runbook("r", "x"), version)) for version in (1, 2))
    assert is_news(new, known(old))
    assert not is_news(old, known(new))
    assert not is_news(old, known(old))
    assert is_news(old, known(old, pipeline="0000"))
    assert is_news(old, None)
    assert news({new.key: new}, {new.key: known(old)}) == {new.key: new}


def test_the_same_content_is_recognised_only_when_it_is_visible_and_of_this_pipeline() -> None:
    old, new = (render(upserted(runbook("r", "x"), version)) for version in (1, 2))
    assert is_same_content(new, known(old))
    assert not is_same_content(new, known(old, pipeline="0000"))
    assert not is_same_content(new, None)
    assert not is_same_content(new, KnownPart(old.rank, PIPELINE, old.content_sha, deleted=True))
