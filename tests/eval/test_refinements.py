"""The scripted rewriters and what is counted of them."""

from __future__ import annotations

import json
from pathlib import Path

from eval_refine import Knowing, Liar, questions

from cairn_answerer.refine import Refinement
from cairn_shared.runbooks.model import Runbook, Step


def book(corpus: str, path: str, title: str) -> Runbook:
    return Runbook(id=f"{corpus}-page", title=title, path=path, steps=[Step(number=1, label="1", body="Look.")])


def test_each_question_has_its_own_corpus_page_and_is_asked_again_without_it(tmp_path: Path) -> None:
    row = {"corpus": "two", "question": "How?", "path": "a/Page.md", "style": "own words"}
    (tmp_path / "covered.jsonl").write_text(json.dumps(row))
    (tmp_path / "uncovered.jsonl").write_text(json.dumps({"question": "Why?"}))
    books = [book("one", "a/Page.md", "Another"), book("two", "a/Page.md", "This one")]
    asked, taken, uncovered = questions(tmp_path, books)
    assert (asked.title, asked.path, asked.gone) == ("This one", "a/Page.md", None)
    assert (taken.title, taken.path, taken.gone) == (None, None, "page")
    assert (uncovered.title, uncovered.group) == (None, "covered by no page")


async def test_the_knowing_rewriter_knows_only_what_it_is_shown_and_the_liar_always_something() -> None:
    shown = ["First", "This one"]
    assert await Knowing("This one").refine("How?", shown) == Refinement("This one")
    assert await Knowing("This one").refine("How?", ["First"]) == Refinement(None)
    assert await Knowing(None).refine("How?", shown) == Refinement(None)
    assert await Liar().refine("How?", shown) == Refinement("First")
