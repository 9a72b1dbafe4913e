"""Is there something to answer from?"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cairn_retriever.gate import Names, confidence, judge, policy_for
from cairn_retriever.model import Evidence
from cairn_retriever.policy import GatePolicy
from cairn_shared.api.search import Gate

POLICY = GatePolicy()
PAGE = uuid.UUID(int=1)
FAR = Evidence(cosine=0.3, coverage=0.1, gap=0.02, document_id=PAGE)
NEAR = Evidence(cosine=0.8, coverage=0.9, gap=0.2, document_id=PAGE)


def gate(runbooks: Evidence | None = FAR, events: Evidence | None = None, **names: Any) -> Gate:
    nothing: dict[str, Any] = {"asked": [], "found": [], "naming": frozenset(), "joined": []}
    nothing |= {"code": False, "routed": False}
    return judge(runbooks, events, Names(**nothing | names), POLICY)


def named(name: str, runbooks: Evidence = FAR, **more: Any) -> Gate:
    """`name` is in few documents, one of which is the runbook that would be shown."""
    held = replace(runbooks, held=frozenset({name}))
    return gate(held, asked=[name], found=[name], naming=frozenset({name}), **more)


def test_neither_near_nor_worded_is_refused() -> None:
    assert not gate().enough


@pytest.mark.parametrize("seen", [{"routed": True}, {"runbooks": NEAR}, {"events": NEAR}])
def test_led_to_or_near_is_enough(seen: dict[str, Any]) -> None:
    assert gate(**seen).enough


@pytest.mark.parametrize("key", ["proj-123", "ora-00600", "deadbeef01", "pg_promote"])
def test_a_key_is_enough(key: str) -> None:
    assert named(key).enough


def test_a_camel_case_name_is_a_key() -> None:
    assert named("replsetresizeoplog", joined=["replsetresizeoplog"]).enough


def test_a_key_that_many_documents_hold_names_nothing() -> None:
    assert not gate(replace(FAR, held=frozenset({"proj-123"})), asked=["proj-123"], found=["proj-123"]).enough


@pytest.mark.parametrize("word", ["502", "binary", "x509", "0.0.0.0", "--type"])
def test_a_name_that_is_also_said_of_other_things_needs_the_rest_of_the_question(word: str) -> None:
    assert not named(word).enough
    assert named(word, runbooks=replace(FAR, coverage=1.0)).enough


def test_a_page_that_holds_a_phrase_of_the_query_is_enough() -> None:
    assert gate(runbooks=replace(FAR, quoted=True)).enough


def test_a_page_about_another_product_is_not_whatever_else_it_holds() -> None:
    foreign = replace(NEAR, coverage=1.0, quoted=True, foreign=True)
    assert not gate(runbooks=foreign).enough
    assert not named("502", runbooks=foreign).enough
    assert confidence(foreign, POLICY) == 0.0
    assert gate(runbooks=foreign, events=NEAR).enough, "an event about that product may be"


def test_what_is_named_exactly_is_enough_on_a_page_about_another_product_too() -> None:
    assert gate(runbooks=replace(FAR, foreign=True), routed=True).enough
    assert named("proj-12", runbooks=replace(FAR, foreign=True)).enough


def test_each_half_of_the_corpus_answers_for_itself() -> None:
    """A commit that holds the name makes no answer of a runbook that does not."""
    seen = named("worker_eta_task_limit", runbooks=FAR, events=None)
    assert seen.runbooks is not None
    assert seen.runbooks.enough
    commit = replace(FAR, held=frozenset({"worker_eta_task_limit"}), document_id=uuid.UUID(int=2))
    seen = gate(FAR, commit, asked=["worker_eta_task_limit"], naming=frozenset({"worker_eta_task_limit"}))
    assert seen.runbooks is not None
    assert seen.events is not None
    assert (seen.runbooks.enough, seen.events.enough, seen.enough) == (False, True, True)
    assert seen.events.document_id == uuid.UUID(int=2)
    assert seen.first == "events"


def test_a_name_goes_before_likeness() -> None:
    commit = replace(FAR, held=frozenset({"proj-123"}))
    assert gate(NEAR, commit, asked=["proj-123"], naming=frozenset({"proj-123"})).first == "events"
    assert gate(NEAR, NEAR).first is None
    assert gate(NEAR, FAR, routed=True).first == "runbooks"


def test_an_error_code_alone_is_enough_on_a_page_that_holds_it() -> None:
    assert gate(runbooks=replace(FAR, coverage=1.0), code=True).enough
    assert not gate(runbooks=FAR, code=True).enough


def test_nothing_found_is_never_enough() -> None:
    assert not gate(runbooks=None, routed=True).enough


def test_without_vectors_words_decide() -> None:
    assert gate(runbooks=replace(NEAR, cosine=None, coverage=0.95)).enough
    assert not gate(runbooks=replace(FAR, cosine=None)).enough


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
