from __future__ import annotations

import pytest

from cairn_retriever.lexical import weigh
from cairn_retriever.model import CorpusState, Lexicon, Prepared
from cairn_retriever.spelling import Spelling


def asked(*lexemes: str) -> Prepared:
    return Prepared(
        state=CorpusState(0, None, 0, 0.0, refreshed=True, thresholds={}, vectors=None),
        lexemes=lexemes,
        sequence=tuple(enumerate(lexemes)),
        products=(),
        spellings=(),
        fillers=frozenset(),
        joined=frozenset(),
        event_frequencies={},
        identifier_documents={},
        routes=(),
    )


WORDS = {"replic": 9, "storag": 30, "stora": 1, "throttl": 4, "disk": 80, "evalu": 12}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("replci", "replic"),  # two letters swapped
        ("storagg", "storag"),
        ("throtl", "throttl"),  # one missing
        ("evaalu", "evalu"),  # one too many
        ("storaq", "storag"),  # two words are as near: the more frequent one
    ],
)
def test_a_typing_error_is_read_as_the_corpus_word(written: str, meant: str) -> None:
    found = Spelling(WORDS).nearest(written)
    assert found is not None
    assert found[0] == meant
    assert 0.5 < found[1] < 1.0


@pytest.mark.parametrize("written", ["cassandra", "dsk", "srv12", "x" * 5000, "", "überlauf"])
def test_what_is_no_typing_error_is_left_alone(written: str) -> None:
    assert Spelling(WORDS).nearest(written) is None


def test_only_a_word_that_nothing_has_is_corrected_and_it_weighs_less() -> None:
    runbooks = Lexicon(100, 50.0, WORDS, Spelling(WORDS))
    events = Lexicon(100, 50.0, {"throtl": 3})
    known = {one.lexeme: one for one in weigh(asked("replci", "throtl", "disk"), runbooks, events, 40)}
    assert set(known) == {"replic", "throtl", "disk"}, "events have the second as it is written"
    assert known["replic"].likeness < 1.0
    assert known["replic"].runbook_idf < runbooks.rarity("replic")


def test_a_correction_that_the_question_has_already_is_not_counted_twice() -> None:
    runbooks = Lexicon(100, 50.0, WORDS, Spelling(WORDS))
    assert [one.lexeme for one in weigh(asked("replci", "replic"), runbooks, Lexicon(0, 0.0, {}), 40)] == ["replic"]
