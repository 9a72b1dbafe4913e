"""The second look: order within equals, places kept, and nothing lost when the reranker is away."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retriever_corpus import FrozenClock

from cairn_retriever.reranking import Reranked, RerankPolicy, reordered
from cairn_shared.api.search import Gate, Hit, SearchRequest, SearchResponse
from cairn_shared.errors import Unavailable


def hit(name: str, *, kind: str = "runbook", tier: int = 0, score: float = 0.5) -> Hit:
    return Hit(
        kind=kind,
        document_id=uuid.uuid5(uuid.NAMESPACE_OID, name),
        step_id=uuid.uuid5(uuid.NAMESPACE_URL, name),
        runbook_id=name,
        source="test",
        title=f"Title {name}",
        step=1,
        label="1",
        section="",
        text=f"Body {name}",
        version=1,
        content_sha=name,
        score=score,
        features={"tier": tier},
    )


GATE = Gate(best_cosine=0.5, best_coverage=0.5, identifiers_asked=[], identifiers_found=[], routed=False, enough=True)


class Found:
    """A search that finds these."""

    def __init__(self, *hits: Hit) -> None:
        self.hits = list(hits)
        self.asked: list[int] = []

    async def search(self, request: SearchRequest) -> SearchResponse:
        self.asked.append(request.k)
        return SearchResponse(
            results=self.hits[: request.k], mode="hybrid", gate=GATE, epoch=1, fingerprint="f", timings={"total_ms": 1}
        )


class Judge:
    """Likes what it is told to, in that order."""

    def __init__(self, *liked: str) -> None:
        self.liked = liked
        self.error: Exception | None = None

    async def scores(self, query: str, passages: Sequence[str], seconds: float) -> list[float]:
        if self.error is not None:
            raise self.error
        rank = {name: 1 - place / 10 for place, name in enumerate(self.liked)}
        return [next((score for name, score in rank.items() if f"Title {name} >" in text), 0.0) for text in passages]


async def names(found: Found, judge: Judge, k: int = 3, **policy: Any) -> tuple[list[str], SearchResponse]:
    answer = await Reranked(found, judge, FrozenClock(), RerankPolicy(**policy)).search(SearchRequest(query="q", k=k))
    return [one.runbook_id for one in answer.results], answer


async def test_what_the_reranker_likes_comes_first_from_beyond_k() -> None:
    found = Found(*(hit(name) for name in "abcdef"))
    order, answer = await names(found, Judge("e", "b"), k=3)
    assert order == ["e", "b", "a"]
    assert found.asked == [20]
    assert [one.features["rerank"] for one in answer.results] == [1.0, 0.9, 0.0]


async def test_what_was_found_for_certain_and_the_places_of_events_stay() -> None:
    found = Found(hit("a", tier=3), hit("b"), hit("x", kind="alert"), hit("c"), hit("y", kind="alert"))
    order, _ = await names(found, Judge("c", "y", "x", "b", "a"), k=5)
    assert order == ["a", "c", "y", "b", "x"]


async def test_a_reranker_that_is_away_changes_nothing_but_the_mark() -> None:
    judge = Judge("c")
    judge.error = Unavailable("embedder")
    order, answer = await names(Found(*(hit(name) for name in "abcdef")), judge, k=3)
    assert (order, answer.degraded) == (["a", "b", "c"], ["reranker"])


async def test_only_the_top_is_looked_at() -> None:
    order, _ = await names(Found(*(hit(name) for name in "abcdef")), Judge("f", "c"), k=6, top=3)
    assert order == ["c", "a", "b", "d", "e", "f"]


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.floats(0, 1)), max_size=12),
)
def test_no_hit_is_lost_and_every_place_keeps_its_kind_tier_and_score(rows: list[tuple[bool, int, float]]) -> None:
    hits = [
        hit(str(number), kind="runbook" if book else "alert", tier=tier, score=1 - number / 100)
        for number, (book, tier, _) in enumerate(rows)
    ]
    after = reordered(hits, [score for _, _, score in rows])
    assert sorted(one.runbook_id for one in after) == sorted(one.runbook_id for one in hits)
    shape = [(one.kind, one.features["tier"], one.score) for one in hits]
    assert [(one.kind, one.features["tier"], one.score) for one in after] == shape


@pytest.mark.parametrize("count", [0, 1])
async def test_nothing_to_put_in_order(count: int) -> None:
    judge = Judge()
    judge.error = AssertionError("asked")
    order, answer = await names(Found(*(hit(name) for name in "ab"[:count])), judge)
    assert (len(order), answer.degraded) == (count, [])
