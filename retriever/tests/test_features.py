"""What speaks for a page, and the fitted model over it: promises that hold whatever the weights are."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace

import numpy as np
import pytest

from cairn_retriever.features import EITHER_WAY, FEATURES, SECTION, TITLE, Asked, page_table
from cairn_retriever.model import Candidate, Lexicon, WeightedLexeme
from cairn_retriever.page_model import read_model, shipped_model
from cairn_retriever.policy import LexicalPolicy

LEXICON = Lexicon(1000, 50.0, {"pod": 400, "crash": 20, "loop": 10})


def word(lexeme: str) -> WeightedLexeme:
    idf = LEXICON.rarity(lexeme)
    return WeightedLexeme(lexeme, lexeme, asked=True, tells="less where unknown", runbook_idf=idf, event_idf=idf)


ASKED = Asked("pod is crash looping", [word("pod"), word("crash"), word("loop")], LEXICON, [], {})


def chunk(of: int, step: int = 1, *, fields: tuple[int, int, int] = (0, 0, 0), **changes: object) -> Candidate:
    identity = uuid.uuid5(uuid.UUID(int=of), str(step))
    made = Candidate(
        sources=(),
        chunk_id=identity,
        step_id=identity,
        document_id=uuid.UUID(int=of),
        kind="runbook",
        ordinal=0,
        step_number=step,
        section="",
        occurred_at=None,
        content_sha=str(identity),
        identifiers=frozenset(),
        frequencies=tuple(map(float, fields)),
        quoted=(),
        length=50,
        cosine=0.3,
        extra_cosine=None,
        seed_rank=0.0,
        fields=fields,
        title="A page",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def column(candidates: list[Candidate], name: str) -> list[float]:
    values: list[float] = page_table(candidates, ASKED, LexicalPolicy()).values[:, FEATURES.index(name)].tolist()
    return values


def test_words_in_different_steps_count_for_the_page_together() -> None:
    apart = [chunk(1, 1, fields=(1, 0, 0)), chunk(1, 2, fields=(0, 1, 0)), chunk(1, 3, fields=(0, 0, 1))]
    assert column([*apart, chunk(2, fields=(1, 1, 0))], "coverage")[0] == pytest.approx(1.0)
    assert column([*apart, chunk(2, fields=(1, 1, 0))], "coverage")[1] < 1.0


def test_where_a_word_stands_is_told_apart() -> None:
    pages = [chunk(1, fields=(0, TITLE, 0)), chunk(2, fields=(0, SECTION, 0)), chunk(3, fields=(0, 1, 0))]
    assert [value > 0 for value in column(pages, "title")] == [True, False, False]
    assert [value > 0 for value in column(pages, "section")] == [False, True, False]
    assert len(set(column(pages, "coverage"))) == 1


def test_a_camel_case_name_is_like_its_words() -> None:
    named = chunk(1, title="KubePodCrashLooping", path="kubernetes/KubePodCrashLooping.md")
    other = chunk(2, title="KubeNodeUnreachable", path="kubernetes/KubeNodeUnreachable.md")
    name, other_name = column([named, other], "name")
    assert name > 0.6
    assert other_name < 0.2


def test_the_order_of_candidates_does_not_matter() -> None:
    pages = [chunk(of, step, cosine=of / 10, fields=(of % 2, 1, 0)) for of in range(1, 6) for step in (1, 2, 3)]
    there, back = (page_table(one, ASKED, LexicalPolicy()) for one in (pages, pages[::-1]))
    assert there.documents == back.documents
    assert np.array_equal(there.values, back.values)


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "semantic"])
def test_evidence_never_speaks_against_a_page(mode: str) -> None:
    """Promised of any fitted model, not of these weights."""
    weights = shipped_model().pages[mode].weights
    assert set(weights) <= set(FEATURES)
    assert all(weight >= 0.0 for name, weight in weights.items() if name not in EITHER_WAY)
    assert any(weights.values())


def test_a_model_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 7"):
        read_model(json.dumps({"version": 7, "pages": {}}))


def test_no_words_and_no_vectors_are_no_numbers_gone_wrong() -> None:
    asked = Asked("", [], Lexicon(0, 0.0, {}), [], {})
    table = page_table([chunk(1, fields=(), cosine=None)], asked, LexicalPolicy())  # type: ignore[arg-type]
    assert np.isfinite(table.values).all()
