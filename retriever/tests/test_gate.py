"""Is there something to answer from?"""

from __future__ import annotations

from typing import Any

import pytest

from cairn_retriever.gate import judge, policy_for
from cairn_retriever.policy import GatePolicy
from cairn_shared.api.search import Gate

POLICY = GatePolicy(cosine=0.5, coverage=0.5)


def gate(**seen: Any) -> Gate:
    nothing: dict[str, Any] = {
        "best_cosine": 0.1,
        "best_coverage": 0.1,
        "asked": [],
        "found": [],
        "naming": [],
        "routed": False,
        "results": 5,
        "policy": POLICY,
    }
    return judge(**nothing | seen)


def test_neither_near_nor_worded_is_refused() -> None:
    assert not gate().enough


@pytest.mark.parametrize(
    "seen",
    [
        {"routed": True},
        {"found": ["proj-123"], "naming": ["proj-123"]},
        {"best_cosine": 0.9, "best_coverage": 0.9},
    ],
)
def test_exact_or_near_is_enough(seen: dict[str, Any]) -> None:
    assert gate(**seen).enough


def test_an_identifier_that_is_everywhere_names_nothing() -> None:
    assert not gate(found=["--all-namespaces"], naming=[]).enough


def test_nothing_found_is_never_enough() -> None:
    assert not gate(results=0, routed=True).enough


def test_without_vectors_words_decide() -> None:
    assert gate(best_cosine=None, best_coverage=0.95).enough
    assert not gate(best_cosine=None, best_coverage=0.1).enough


class TestThresholds:
    def test_belong_to_a_fingerprint(self) -> None:
        stored = {"model-a": {"cosine": 0.7, "coverage": 0.8}}
        assert policy_for("model-a", stored, POLICY).cosine == 0.7
        assert policy_for("model-b", stored, POLICY) == POLICY
        assert policy_for(None, stored, POLICY) == POLICY

    def test_nonsense_is_ignored(self) -> None:
        assert policy_for("a", {"a": {"cosine": "high", "other": 3, "coverage": True}}, POLICY) == POLICY
        assert policy_for("a", {"a": [1]}, POLICY) == POLICY
