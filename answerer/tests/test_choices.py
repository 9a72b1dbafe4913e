"""Where the evidence does not tell runbooks apart, the answer is a choice between them."""

from __future__ import annotations

import uuid

import pytest
from answerer_bench import Bench
from answerer_corpus import make_hit, make_passage, make_search

from cairn_answerer.choices import CHARACTERS, choice, render
from cairn_answerer.model import Passage
from cairn_shared.api.ask import AskRequest
from cairn_shared.api.search import SearchFilters

BOOKS = {name: uuid.uuid5(uuid.NAMESPACE_OID, name) for name in ("mysql", "mongodb")}


def book(name: str) -> list[Passage]:
    texts = [
        ("Meaning", f"The {name} volume is full. It will stop."),
        ("Steps", "Look at `df`."),
        ("Steps", "Grow it."),
    ]
    return [
        make_passage(
            number,
            text,
            section=section,
            runbook_id=name,
            title=f"{name} disk full",
            document_id=BOOKS[name],
            step_id=uuid.uuid5(BOOKS[name], str(number)),
        )
        for number, (section, text) in enumerate(texts, 1)
    ]


@pytest.fixture
def undecided(bench: Bench) -> Bench:
    """Two runbooks fit as well as one another."""
    bench.corpus.steps = [step for name in BOOKS for step in book(name)]
    hits = [
        make_hit(2, "Look at `df`.", runbook_id=name, title=f"{name} disk full", document_id=document)
        for name, document in BOOKS.items()
    ]
    found = make_search(*hits)
    assert found.gate.runbooks is not None
    found.gate.runbooks.rivals = list(BOOKS.values())
    bench.retriever.answer = found
    return bench


async def test_each_runbook_is_told_by_its_own_words(undecided: Bench) -> None:
    answer = await (await undecided.answerer()).ask(AskRequest(question="disk full"))
    assert (answer.mode, answer.degraded) == ("choose", False)
    assert [one.runbook_id for one in answer.choices] == ["mysql", "mongodb"]
    first = answer.choices[0]
    assert (first.title, first.about, first.first_step) == (
        "mysql disk full",
        "The mysql volume is full.",
        "Look at `df`.",
    )
    assert first.marker == "[mysql disk full, Step 2]"
    assert 'cairn ask --runbook mongodb "disk full"' in answer.answer
    assert not any(source.cited for source in answer.sources)
    assert undecided.model is not None
    assert undecided.model.calls == [], "a model is not asked to guess"


async def test_naming_one_of_them_gets_its_steps(undecided: Bench) -> None:
    request = AskRequest(question="disk full", filters=SearchFilters(runbooks=["mysql"]))
    answer = await (await undecided.answerer()).ask(request)
    assert answer.mode != "choose"
    assert answer.sources


async def test_where_postgresql_is_away_the_best_is_shown_instead(undecided: Bench) -> None:
    undecided.corpus.away = True
    answer = await (await undecided.answerer()).ask(AskRequest(question="disk full"))
    assert answer.mode not in ("choose", "unavailable")
    assert answer.sources


def test_a_runbook_without_a_procedure_begins_at_its_beginning() -> None:
    alone = choice(book("mysql")[:1])
    assert alone.about == alone.first_step == "The mysql volume is full."
    assert render([alone], 'what "now"?\n').count(alone.about) == 1


def test_long_texts_are_cut() -> None:
    assert len(choice([make_passage(1, "word " * 200)]).about) == CHARACTERS
