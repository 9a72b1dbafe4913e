"""Answers by selection: honest plans are told whole, lying ones tell nothing but the runbook's words, in its order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from eval_answers_plans import Book, Tally, cited, fault_of, measure, read_books
from eval_sets import corpora

from cairn_answerer.model import Chosen
from cairn_answerer.selection import Told, arranged
from cairn_answerer.units import units_of
from cairn_shared.api.ask import Claim

SAMPLE = 12
"""Of the public corpora every so many runbooks: all of them are `make eval`'s part."""

PREPARED_FROM = ("demo", "prometheus-operator-runbooks", "openshift-runbooks")


@pytest.fixture(scope="module", name="folder")
def _folder() -> Path:
    folder = corpora()
    if folder is None:
        pytest.skip("no public corpora beside the checkout")
    return folder


@pytest.fixture(scope="module", name="public")
def _public(folder: Path) -> list[Book]:
    return [book for book in read_books(folder) if book.corpus != "demo"]


def failed(tallies: Mapping[str, Mapping[str, Tally]]) -> dict[str, list[str]]:
    return {
        f"{one}: {kind}": tally.examples
        for one, kinds in tallies.items()
        for kind, tally in kinds.items()
        if tally.failed
    }


def test_no_lie_about_the_demo_runbooks_is_told() -> None:
    tallies = measure(read_books(None), None)
    assert failed(tallies) == {}
    assert all(tally.plans >= 30 for tally in tallies["demo"].values())


def test_no_lie_about_public_runbooks_is_told(public: list[Book]) -> None:
    assert failed(measure(public[::SAMPLE], None)) == {}


def test_every_public_step_is_its_units(public: list[Book]) -> None:
    for book in public[::2]:
        for step in book.steps:
            assert "".join(step.text[unit.start : unit.end] for unit in units_of(step.text)) == step.text


def test_prepared_answers_are_told_whole_where_honest_and_as_the_runbook_where_not(folder: Path) -> None:
    prepared = folder.parent / "eval" / "answers"
    if not prepared.is_dir():
        pytest.skip("no prepared answers beside the corpora")
    books = [book for book in read_books(folder) if book.corpus in PREPARED_FROM]
    tallies = {"all": measure(books[:1], prepared, among=books)["all"]}
    assert failed(tallies) == {}
    assert tallies["all"]["prepared, honest"].plans > 10


class TestFaults:
    """What the measure itself must see."""

    def test_it_sees_a_word_that_is_not_the_runbooks_and_a_step_out_of_order(self) -> None:
        books = read_books(None)
        steps = books[0].steps[:2]
        told, _ = arranged([Chosen(step, frozenset({0})) for step in steps], steps)
        assert fault_of(told) is None
        assert "after a later one" in (fault_of(told[::-1]) or "")
        changed = Told(Claim(text=f"never {told[0].claim.text}"), told[0].passage)
        assert "not in" in (fault_of([changed]) or "")

    def test_a_citation_of_nothing_is_an_error(self) -> None:
        with pytest.raises(LookupError):
            cited(read_books(None)[:1], "No such title#1")
