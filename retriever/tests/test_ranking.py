"""The order of steps."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retriever_corpus import NOW

from cairn_retriever.lexical import Bm25
from cairn_retriever.model import Candidate, Lexicon, Ranked, Ranking, WeightedLexeme
from cairn_retriever.places import TIER_ALL, TIER_PLAIN, TIER_ROUTED, TIER_SOME
from cairn_retriever.policy import DecayPolicy, RetrievalPolicy
from cairn_retriever.ranking import Question, age_in_days, decay, rank

POLICY = RetrievalPolicy()
WORDS = Bm25(
    [WeightedLexeme("lag", "lag", asked=True, tells="always", runbook_idf=3.0, event_idf=3.0)],
    Lexicon(10, 50, {"lag": 2}),
    Lexicon(10, 50, {}),
    POLICY.lexical,
)
QUESTION = Question(
    mode="hybrid",
    fusion="tm2c2",
    k=10,
    now=NOW,
    naming=frozenset(),
    identifier_weights={},
    routed=frozenset(),
    rarities=(),
    products=frozenset(),
    ignore_age=False,
)


def document(number: int) -> uuid.UUID:
    return uuid.UUID(int=number)


def candidate(
    of: int,
    step: int = 1,
    *,
    cosine: float | None = 0.5,
    words: float = 0.0,
    kind: str = "runbook",
    age_days: float | None = None,
    content: str | None = None,
    held: Sequence[str] = (),
    section: str = "",
    quoted: Sequence[int] = (),
) -> Candidate:
    identity = uuid.uuid5(document(of), str(step))
    return Candidate(
        sources=("somewhere",),
        chunk_id=identity,
        step_id=identity,
        document_id=document(of),
        kind=kind,
        ordinal=0,
        step_number=step,
        section=section,
        occurred_at=None if age_days is None else NOW - timedelta(days=age_days),
        content_sha=content or str(identity),
        identifiers=frozenset(held),
        frequencies=(words,),
        quoted=tuple(quoted),
        length=50,
        cosine=cosine,
        extra_cosine=None,
        seed_rank=0.0,
    )


def ranking(candidates: Sequence[Candidate], **question: object) -> Ranking:
    return rank(candidates, replace(QUESTION, **question), WORDS, POLICY)  # type: ignore[arg-type]


def ranked(candidates: Sequence[Candidate], **question: object) -> list[Ranked]:
    return ranking(candidates, **question).steps


def documents(steps: Sequence[Ranked]) -> list[int]:
    return [step.document_id.int for step in steps]


class TestOrder:
    def test_does_not_depend_on_the_order_of_candidates(self) -> None:
        candidates = [candidate(of, step, cosine=0.5) for of in range(1, 6) for step in range(1, 4)]
        expected = [step.step_id for step in ranked(candidates)]
        for seed in range(10):
            shuffled = random.Random(seed).sample(candidates, len(candidates))
            assert [step.step_id for step in ranked(shuffled)] == expected

    def test_scores_fall_and_lie_between_nought_and_one(self) -> None:
        scores = [step.score for step in ranked([candidate(of, cosine=of / 20, words=of % 3) for of in range(1, 20)])]
        assert scores == sorted(scores, reverse=True)
        assert all(0.0 <= score <= 1.0 for score in scores)

    def test_words_and_meaning_each_bring_a_document_up(self) -> None:
        """Pitfall 4: on one scale, the gold of either kind is among the first three."""
        crowd = [candidate(of, cosine=0.4) for of in range(10, 30)]
        by_words, by_meaning = candidate(1, cosine=0.4, words=5.0), candidate(2, cosine=0.8)
        assert set(documents(ranked([*crowd, by_words, by_meaning]))[:3]) >= {1, 2}

    def test_a_document_is_ranked_by_all_that_it_says(self) -> None:
        """Its words in one section and its meaning in another count together."""
        spread = [candidate(1, 1, cosine=0.80, words=0.0), candidate(1, 2, cosine=0.3, words=4.0)]
        rivals = [candidate(2, 1, cosine=0.79, words=1.0), candidate(3, 1, cosine=0.3, words=4.0)]
        assert documents(ranked([*spread, *rivals]))[0] == 1

    def test_symptoms_find_the_runbook_but_its_steps_come_first(self) -> None:
        steps = [
            candidate(1, 9, cosine=0.80, section="Symptoms"),
            candidate(1, 1, cosine=0.78, section="Steps"),
        ]
        assert [step.step_number for step in ranked(steps)] == [1, 9]

    def test_a_long_runbook_leaves_room_for_others(self) -> None:
        long = [candidate(1, step, cosine=0.9) for step in range(1, 9)]
        others = [candidate(of, cosine=0.5) for of in range(2, 6)]
        assert set(documents(ranked([*long, *others], k=7))) == {1, 2, 3, 4, 5}

    def test_who_holds_a_message_word_by_word_comes_before_who_is_nearer(self) -> None:
        quoting = candidate(1, cosine=0.50, quoted=(0, 1, 2))
        nearer = candidate(2, cosine=0.55, quoted=(0,))
        assert documents(ranked([quoting, nearer], rarities=(0.4, 0.4, 0.4))) == [1, 2]
        assert documents(ranked([quoting, nearer], rarities=(0.1, 0.1, 0.1))) == [2, 1], "common words in a row"
        apart = replace(quoting, quoted=(0, 2))
        assert documents(ranked([apart, nearer], rarities=(0.4, 0.4, 0.4))) == [2, 1], "no run"

    def test_a_message_weighs_more_than_a_port_that_another_page_names(self) -> None:
        quoting, naming = candidate(1, cosine=0.5, quoted=(0, 1, 2)), candidate(2, cosine=0.5, held=["5432"])
        asked = {"naming": frozenset({"5432"}), "identifier_weights": {"5432": 1.0}}
        assert documents(ranked([quoting, naming], rarities=(0.4, 0.4, 0.4), **asked))[0] == 1
        assert documents(ranked([replace(quoting, quoted=()), naming], **asked))[0] == 2

    def test_a_phrase_of_many_runbooks_names_none(self) -> None:
        common = [candidate(of, cosine=0.5, quoted=(0, 1, 2)) for of in range(1, 5)]
        found = ranking([*common, candidate(9, cosine=0.55)], rarities=(0.5, 0.5, 0.5))
        assert documents(found.steps)[0] == 9
        assert found.runbooks is not None and not found.runbooks.quoted

    def test_no_candidates_give_no_results(self) -> None:
        assert ranked([]) == []


class TestDuplicates:
    def test_equal_contents_become_one_with_a_count(self) -> None:
        copies = [candidate(of, kind="alert", age_days=1, content="same") for of in range(1, 40)]
        steps = ranked([*copies, candidate(99, cosine=0.3, kind="alert", age_days=1)])
        assert len(steps) == 2
        assert steps[0].features["folded"] == 39

    def test_the_latest_copy_is_kept(self) -> None:
        copies = [candidate(of, kind="log", age_days=of, content="same") for of in (5, 1, 9)]
        assert documents(ranked(copies)) == [1]


ASKED = {"naming": frozenset({"proj-1", "web-7"}), "identifier_weights": {"proj-1": 5.0, "web-7": 5.0}}


class TestIdentifiers:
    def test_all_come_before_some_before_none(self) -> None:
        steps = [
            candidate(1, kind="ticket", cosine=0.9, age_days=1),
            candidate(2, kind="ticket", cosine=0.3, age_days=1, held=["proj-1"]),
            candidate(3, kind="ticket", cosine=0.1, age_days=1, held=["proj-1", "web-7"]),
        ]
        found = ranked(steps, **ASKED)
        assert documents(found) == [3, 2, 1]
        assert [step.tier for step in found] == [TIER_ALL, TIER_SOME, TIER_PLAIN]

    def test_a_runbook_may_hold_them_in_different_steps(self) -> None:
        steps = [
            candidate(1, 1, cosine=0.4, held=["proj-1"]),
            candidate(1, 2, cosine=0.3, held=["web-7"]),
            candidate(2, 1, cosine=0.9),
        ]
        assert documents(ranked(steps, **ASKED)) == [1, 1, 2]

    def test_common_ones_add_to_the_score_only(self) -> None:
        steps = [candidate(1, cosine=0.9), candidate(2, cosine=0.2, held=["--force"])]
        assert documents(ranked(steps, identifier_weights={"--force": 0.5})) == [1, 2]


class TestRoutes:
    def test_the_runbook_of_the_alert_comes_first_and_whole(self) -> None:
        routed = [candidate(1, step, cosine=0.0) for step in range(1, 6)]
        others = [candidate(of, cosine=0.9, words=3.0) for of in range(2, 9)]
        found = ranked([*others, *routed], routed=frozenset({document(1)}))
        assert documents(found)[:5] == [1] * 5
        assert found[0].tier == TIER_ROUTED


class TestAge:
    """Pitfalls 15 and 16."""

    def test_runbooks_never_age(self) -> None:
        steps = [candidate(1, cosine=0.6, age_days=3000), candidate(2, cosine=0.5, age_days=0)]
        assert documents(ranked(steps)) == [1, 2]

    def test_of_equal_events_the_newer_comes_first(self) -> None:
        steps = [candidate(of, kind="alert", age_days=of) for of in (30, 1, 7)]
        assert documents(ranked(steps)) == [1, 7, 30]

    def test_the_future_is_no_advantage(self) -> None:
        assert age_in_days(NOW + timedelta(days=9), NOW) == -9.0
        soon, now = (candidate(of, kind="alert", age_days=age) for of, age in ((1, -0.5), (2, 0.0)))
        assert {step.score for step in ranked([soon, now])} == {ranked([now])[0].score}
        year_9999 = candidate(1, kind="alert", age_days=-2_900_000.0)
        assert documents(ranked([year_9999, now])) == [2, 1]

    @given(age=st.floats(-1e7, 1e7), kind=st.sampled_from(["alert", "ticket", "commit", "unheard-of"]))
    def test_age_takes_little(self, age: float, kind: str) -> None:
        policy = DecayPolicy()
        assert 1.0 - policy.most <= decay(kind, age, policy) <= 1.0

    def test_half_of_what_age_takes_is_taken_at_the_half_life(self) -> None:
        policy = DecayPolicy(most=0.4, default_half_life=10.0)
        assert decay("unheard-of", 10.0, policy) == pytest.approx(0.8)

    def test_the_only_one_that_fits_is_first_however_old(self) -> None:
        """Its own words find it among many newer ones that are about something else."""
        old = candidate(1, kind="commit", cosine=0.8, words=9.0, age_days=900)
        fresh = [candidate(of, kind="commit", cosine=0.55, words=2.0, age_days=of / 10) for of in range(2, 30)]
        assert documents(ranked([old, *fresh]))[0] == 1

    def test_an_old_ticket_asked_for_by_its_key_is_first(self) -> None:
        old = candidate(1, kind="ticket", cosine=0.2, age_days=400, held=["proj-1"])
        fresh = [candidate(of, kind="ticket", cosine=0.9, age_days=0.1) for of in range(2, 9)]
        found = ranked([old, *fresh], naming=frozenset({"proj-1"}), identifier_weights={"proj-1": 6.0})
        assert documents(found)[0] == 1
        assert found[0].features["decay"] == 1.0

    def test_asking_for_a_time_ignores_age(self) -> None:
        steps = [
            candidate(1, kind="alert", cosine=0.52, age_days=300),
            candidate(2, kind="alert", cosine=0.5, age_days=0),
        ]
        assert documents(ranked(steps, ignore_age=True)) == [1, 2]
        assert documents(ranked(steps)) == [2, 1]


class TestShares:
    def test_events_cannot_crowd_out_runbooks(self) -> None:
        events = [candidate(of, kind="alert", cosine=0.9, age_days=0) for of in range(100, 130)]
        runbooks = [candidate(of, cosine=0.3) for of in range(1, 20)]
        kinds = [step.kind for step in ranked([*events, *runbooks])]
        assert kinds.count("alert") == 4
        assert kinds.count("runbook") == 6

    def test_places_that_runbooks_cannot_fill_go_to_events(self) -> None:
        events = [candidate(of, kind="alert", age_days=0) for of in range(100, 130)]
        assert len(ranked([*events, candidate(1)])) == 10

    def test_the_only_place_goes_to_a_runbook(self) -> None:
        found = ranked([candidate(1, kind="alert", cosine=0.9, age_days=0), candidate(2, cosine=0.3)], k=1)
        assert [step.kind for step in found] == ["runbook"]

    def test_where_only_events_are_an_answer_they_come_first_and_take_most_places(self) -> None:
        events = [candidate(of, kind="commit", cosine=0.4, age_days=900) for of in range(100, 130)]
        steps = [*events, *(candidate(of, cosine=0.9) for of in range(1, 20))]
        first = rank(steps, QUESTION, WORDS, POLICY, lambda *_: "events").steps
        assert [step.kind for step in first] == ["commit"] * 6 + ["runbook"] * 4
        first = rank(steps, QUESTION, WORDS, POLICY, lambda *_: "runbooks").steps
        assert [step.kind for step in first] == ["runbook"] * 6 + ["commit"] * 4

    def test_an_event_named_exactly_goes_first(self) -> None:
        named = candidate(1, kind="commit", cosine=0.1, age_days=90, held=["deadbeef"])
        found = ranked(
            [named, *(candidate(of, cosine=0.9) for of in range(2, 20))],
            naming=frozenset({"deadbeef"}),
            identifier_weights={"deadbeef": 5.0},
        )
        assert documents(found)[0] == 1


class TestOtherFormulas:
    @pytest.mark.parametrize("fusion", ["rrf", "seed"])
    def test_scores_stay_shares(self, fusion: str) -> None:
        steps = ranked([candidate(of, cosine=of / 20 - 0.3, words=of % 4) for of in range(1, 20)], fusion=fusion)
        assert len(steps) == 10
        assert all(0.0 <= step.score <= 1.0 for step in steps)

    def test_the_prototype_forgets_events_within_weeks(self) -> None:
        """Its half-life is 13.9 days for everything, with no floor: kept to compare, not to use."""
        steps = [
            candidate(1, kind="ticket", cosine=0.9, age_days=60),
            candidate(2, kind="ticket", cosine=0.1, age_days=0),
        ]
        assert documents(ranked(steps, fusion="seed")) == [2, 1]

    def test_keyword_mode_ignores_vectors(self) -> None:
        steps = [candidate(1, cosine=0.9), candidate(2, cosine=0.1, words=2.0)]
        assert documents(ranked(steps, mode="keyword")) == [2, 1]

    def test_semantic_mode_ignores_words(self) -> None:
        steps = [candidate(1, cosine=0.9), candidate(2, cosine=0.1, words=2.0)]
        assert documents(ranked(steps, mode="semantic")) == [1, 2]

    def test_hybrid_without_any_vector_is_keyword(self) -> None:
        steps = [candidate(1, cosine=None), candidate(2, cosine=None, words=2.0)]
        assert [step.score for step in ranked(steps)] == [step.score for step in ranked(steps, mode="keyword")]


class TestEvidence:
    def test_is_raw_and_of_each_half_alone(self) -> None:
        steps = [candidate(of, cosine=0.5 - of / 100) for of in range(1, 9)]
        steps += [candidate(of, kind="alert", cosine=0.9, age_days=900, words=1.0) for of in range(20, 30)]
        found = ranking(steps)
        assert found.runbooks is not None
        assert found.events is not None
        assert found.runbooks.cosine == pytest.approx(0.49)
        assert found.runbooks.gap == pytest.approx(0.05)
        assert found.runbooks.coverage == 0.0
        assert (found.events.cosine, found.events.coverage, found.events.gap) == (0.9, 1.0, 0.0)

    def test_is_of_the_first_document_with_all_its_steps(self) -> None:
        near = candidate(1, cosine=0.55)
        first = [candidate(2, cosine=0.5, held=["x"]), candidate(2, step=2, cosine=0.1, words=1.0)]
        found = ranking([near, *first], naming=frozenset({"x"})).runbooks
        assert found is not None
        assert (found.cosine, found.coverage) == (0.5, 1.0)

    def test_a_lone_document_is_compared_with_a_stranger(self) -> None:
        """Few runbooks are no reason to refuse what one of them answers; what it does not answer is refused still."""
        near, far = ranking([candidate(1, cosine=0.7)]).runbooks, ranking([candidate(1, cosine=0.2)]).runbooks
        assert near is not None
        assert far is not None
        assert near.gap == pytest.approx(0.7 - POLICY.gate.stranger)
        assert far.gap == 0.0

    def test_does_not_depend_on_how_many_results_are_wanted(self) -> None:
        steps = [candidate(of, cosine=0.5 - of / 100, words=of % 2) for of in range(1, 30)]
        assert ranking(steps, k=1).runbooks == ranking(steps, k=20).runbooks

    def test_there_is_none_without_candidates(self) -> None:
        assert ranking([]).runbooks is None
