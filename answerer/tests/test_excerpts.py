"""The answer without a model: the matching procedure of the best runbook, in order."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime

from answerer_corpus import make_passage

from cairn_answerer.excerpts import MAX_CHARACTERS, MAX_STEPS, best_document, events, merge, procedure, render
from cairn_answerer.model import Passage


def steps(count: int, hits: dict[int, float], *, section: str = "Steps", size: int = 50) -> list[Passage]:
    return [
        make_passage(number, f"text {number} " + "x" * size, section=section, score=hits.get(number, 0.0))
        for number in range(1, count + 1)
    ]


def numbers(passages: tuple[Passage, ...]) -> list[int]:
    return [passage.number for passage in passages]


def test_the_whole_procedure_is_shown_in_order_whatever_was_hit() -> None:
    assert numbers(procedure(steps(8, {5: 0.9, 2: 0.4})).passages) == list(range(1, 9))


def test_prose_that_was_hit_comes_after_the_procedure() -> None:
    prose = [
        make_passage(4, "symptoms", section="Symptoms", score=0.9),
        make_passage(5, "impact", section="Impact", score=0.0),
    ]
    assert numbers(procedure([*steps(3, {}), *prose]).passages) == [1, 2, 3, 4]


def test_of_several_procedures_the_one_that_was_hit_is_shown() -> None:
    first = steps(3, {2: 0.3}, section="Restart")
    second = [
        replace(step, number=step.number + 3, score=0.8 if step.number == 1 else 0.0)
        for step in steps(4, {}, section="Failover")
    ]
    assert numbers(procedure([*first, *second]).passages) == [2, 4, 5, 6, 7]


def test_a_runbook_of_prose_sections_is_shown_whole() -> None:
    sections = [
        make_passage(number, "text", section=name, score=0.5 if number == 2 else 0.0)
        for number, name in enumerate(["Meaning", "Diagnosis", "Mitigation"], 1)
    ]
    assert numbers(procedure(sections).passages) == [1, 2, 3]


def test_a_long_procedure_is_shown_around_its_best_hit_and_says_what_is_left_out() -> None:
    shown = procedure(steps(60, {30: 0.9, 58: 0.2}))
    assert len(shown.passages) == MAX_STEPS
    assert {29, 30, 31, 58} <= set(numbers(shown.passages))
    assert numbers(shown.passages) == sorted(numbers(shown.passages))
    assert "Not shown here: steps 1-22, 37-57, 59-60." in render(shown).splitlines()[-1]


def test_long_steps_are_limited_by_size_but_the_best_is_always_shown() -> None:
    shown = procedure(steps(5, {3: 0.9}, size=MAX_CHARACTERS + 1))
    assert numbers(shown.passages) == [3]


def test_what_was_searched_is_shown_when_the_index_moved_on() -> None:
    hit = make_passage(2, "as searched", score=0.9)
    merged = merge([hit], [make_passage(1, score=0.0), make_passage(2, "newer", step_id=uuid.uuid4(), score=0.0)])
    assert [(step.number, step.score) for step in merged] == [(1, 0.0), (2, 0.0)]
    assert merge([hit], []) == [hit]


def test_the_best_runbook_is_that_of_the_best_step_never_an_event() -> None:
    event = make_passage(1, "log", kind="log", score=5.0)
    assert best_document([event, make_passage(3, score=0.4), make_passage(2, score=0.7)]) == make_passage(3, score=0.4)
    assert best_document([event]) is None
    assert events([event, make_passage(2)]) == (event,)


def test_each_passage_stands_under_its_marker() -> None:
    text = render(procedure([make_passage(1, "Do this.", score=0.5), make_passage(2, "Then that.\n", score=0.0)]))
    assert text == (
        "**[PostgreSQL replica, fallen behind, Step 1]** (Steps)\n\nDo this.\n\n"
        "**[PostgreSQL replica, fallen behind, Step 2]**\n\nThen that."
    )


def test_events_are_quoted_with_who_when_and_where() -> None:
    commit = make_passage(
        1,
        "Pin the pool\nto 20 connections.",
        kind="commit",
        title="Pin the pool",
        author="Ada",
        occurred_at=datetime(2026, 11, 20, 9, 30, tzinfo=UTC),
        url="https://git.example/c/1",
    )
    text = render(procedure([]), [commit])
    assert text == (
        "Reported by events, not by a runbook:\n\n"
        "**[commit: Pin the pool, 2026-11-20]** (Ada, 2026-11-20 09:30 UTC, https://git.example/c/1)\n\n"
        "> Pin the pool\n> to 20 connections."
    )
    both = render(procedure([make_passage(1, "Do this.", score=0.5)]), [commit], events_first=True)
    assert both.startswith(text)
    assert both.endswith("Do this.")


def test_of_events_those_are_shown_that_hold_the_name_asked_for() -> None:
    others = [make_passage(of, kind="commit", score=0.9) for of in range(1, 4)]
    named = make_passage(4, kind="commit", score=0.8, named=True)
    assert events([*others, named]) == (named,)
    assert events(others) == tuple(others)
