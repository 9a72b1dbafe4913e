"""Pitfall 13: what belongs to a step, and what only looks like one."""

from __future__ import annotations

import pytest

from cairn_shared.runbooks.markdown import load_runbook


def steps(text: str) -> list[tuple[str, str]]:
    """Label and body of each step."""
    return [(step.label, step.body) for step in load_runbook(text, runbook_id="r").steps]


TABLE = "| code | meaning |\n|---|---|\n| 1 | not a step |"


@pytest.mark.parametrize(
    "shown",
    [TABLE, "```sh\n# not a heading\nls\n```", "> Ask first."],
    ids=["table", "fence", "quotation"],
)
def test_what_an_item_shows_without_indentation_belongs_to_it(shown: str) -> None:
    assert steps(f"1. Compare:\n\n{shown}\n") == [("1", f"Compare:\n\n{shown}")]


def test_the_list_that_the_last_item_announces_belongs_to_it() -> None:
    assert steps("1. Go.\n2. Look at:\n\n- disk\n- cpu\n") == [("1", "Go."), ("2", "Look at:\n\n- disk\n- cpu")]


def test_items_that_fences_part_into_lists_of_one_are_counted_on() -> None:
    fence = "```sh\nls\n```"
    text = f"1. One\n\n{fence}\n\n1. Two\n\n{fence}\n\n1. Three"
    assert [label for label, _ in steps(text)] == ["1", "2", "3"]


@pytest.mark.parametrize("inside", ["   # loud\n\n   this", "   > # loud\n   > this"], ids=["in the item", "quoted"])
def test_a_heading_inside_an_item_opens_no_section(inside: str) -> None:
    text = f"# T\n\n## Repair\n\n1. Do\n\n{inside}\n2. End\n\nCall somebody.\n"
    first, second, prose = load_runbook(text, runbook_id="r").steps
    assert "# loud" in first.body
    assert "this" in first.body
    assert [second.body, prose.body] == ["End", "Call somebody."]
    assert {step.section for step in (first, second, prose)} == {"Repair"}


def test_every_word_is_in_a_step() -> None:
    """Prose before, between and after procedures is a step of its section."""
    text = "# T\n\nAlpha.\n\n## A\n\nBeta:\n\n1. Gamma\n\nDelta.\n\n- epsilon\n\n## B\n\n" + TABLE + "\n\nZeta.\n"
    joined = "\n".join(body for _, body in steps(text))
    for word in ("Alpha", "Beta", "Gamma", "Delta", "epsilon", "not a step", "Zeta"):
        assert joined.count(word) == 1
