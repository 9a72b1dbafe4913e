"""Is there something to answer from?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cairn_retriever.gate import confidence, judge, policy_for
from cairn_retriever.model import Evidence
from cairn_retriever.policy import GatePolicy
from cairn_shared.api.search import Gate

POLICY = GatePolicy()
FAR = Evidence(cosine=0.3, coverage=0.1, gap=0.02)
NEAR = Evidence(cosine=0.8, coverage=0.9, gap=0.2)


def gate(**seen: Any) -> Gate:
    nothing: dict[str, Any] = {
        "runbooks": FAR,
        "events": None,
        "asked": [],
        "found": [],
        "naming": [],
        "routed": False,
        "policy": POLICY,
    }
    return judge(**nothing | seen)


def test_neither_near_nor_worded_is_refused() -> None:
    assert not gate().enough


@pytest.mark.parametrize(
    "seen",
    [{"routed": True}, {"found": ["proj-123"], "naming": ["proj-123"]}, {"runbooks": NEAR}, {"events": NEAR}],
)
def test_exact_or_near_is_enough(seen: dict[str, Any]) -> None:
    assert gate(**seen).enough


def test_an_identifier_that_is_everywhere_names_nothing() -> None:
    assert not gate(found=["proj-123"], naming=[]).enough


@pytest.mark.parametrize("word", ["502", "binary", "x509", "0.0.0.0", "--type"])
def test_an_identifier_that_is_also_said_of_other_things_names_nothing(word: str) -> None:
    assert not gate(found=[word], naming=[word]).enough


def test_nothing_found_is_never_enough() -> None:
    assert not gate(runbooks=None, routed=True).enough


def test_without_vectors_words_decide() -> None:
    assert gate(runbooks=Evidence(cosine=None, coverage=0.95, gap=0.0)).enough
    assert not gate(runbooks=Evidence(cosine=None, coverage=0.1, gap=0.0)).enough


def test_a_page_that_stands_out_is_believed_more() -> None:
    """Where the page is missing, its neighbours are all about equally near."""
    crowd = Evidence(cosine=0.6, coverage=0.5, gap=0.02)
    assert confidence(replace(crowd, gap=0.25), POLICY) > confidence(crowd, POLICY)


@given(cosine=st.one_of(st.none(), st.floats(-1, 1)), coverage=st.floats(0, 1), gap=st.floats(0, 2))
def test_confidence_is_a_probability(cosine: float | None, coverage: float, gap: float) -> None:
    assert 0.0 <= confidence(Evidence(cosine, coverage, gap), POLICY) <= 1.0


class TestThresholds:
    def test_belong_to_a_fingerprint(self) -> None:
        stored = {"model-a": {"cosine": 0.7, "threshold": 0.8}}
        assert policy_for("model-a", stored, POLICY).cosine == 0.7
        assert policy_for("model-b", stored, POLICY) == POLICY
        assert policy_for(None, stored, POLICY) == POLICY

    def test_nonsense_is_ignored(self) -> None:
        assert policy_for("a", {"a": {"cosine": "high", "other": 3, "coverage": True}}, POLICY) == POLICY
        assert policy_for("a", {"a": [1]}, POLICY) == POLICY
