"""Does one sentence of a step say what a sentence of a claim says?

A claim is compared with one sentence at a time, never with a step as a whole: in a step of five sentences every word
of a lie can be found somewhere. A sentence of a step brings along the step's heading and, where it says `it` or
`them`, the sentence before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from cairn_answerer.code import find_code
from cairn_answerer.verification.contradictions import contradiction
from cairn_answerer.verification.statements import Statement, statements, taken_apart
from cairn_answerer.verification.step_sentences import Sentence
from cairn_answerer.verification.tokens import code_tokens, tokens
from cairn_answerer.words import word_set

Disagreement = Literal["overlap", "negation", "opposite"]

_FEW = 2
"""Words of a sentence so short that one of them says it."""

_FILLERS = word_set("set server option parameter sett statement possible session enough check watch confirm see")
"""Stems of words that a claim may add to a sentence, one at a time: `set it to 1` for `it must be 1`."""


def compare(text: str, known: Sequence[Sentence]) -> Iterator[tuple[Disagreement, str]]:
    """What of `text` no sentence among `known` says, or that one says the opposite."""
    quoted = _quoted(text, known)
    said = list(statements(tokens(text)))
    if sum(token.carries for statement in said for token in statement.tokens) == 1:
        # `Use TAKEOVER`: one word out of a sentence says nothing of it.
        known = [sentence for sentence in known if len(sentence.says.needed) <= _FEW]
    if not any(statement.needed for statement in said) and "```" not in text:
        yield "overlap", "it says nothing"
    for statement in said:
        if found := _disagreement(statement, known, quoted):
            yield found


def _quoted(text: str, known: Sequence[Sentence]) -> dict[int, frozenset[str]]:
    """The words of the commands that the claim quotes, by the steps that hold them."""
    found: dict[int, frozenset[str]] = {}
    for code in find_code(text):
        words = Statement(tuple(code_tokens(code.text))).words
        if len(code.text.split()) < 2 or any(words <= sentence.says.words for sentence in known if not sentence.code):
            continue  # a name, or a command that a sentence speaks of: that sentence has to say the rest too
        for sentence in known:
            if sentence.code and words <= sentence.says.words:
                found[sentence.step] = found.get(sentence.step, frozenset()) | words
    return found


def _disagreement(
    statement: Statement, known: Sequence[Sentence], quoted: Mapping[int, frozenset[str]]
) -> tuple[Disagreement, str] | None:
    if not statement.needed:
        return None
    first, detail, sentence = _closest(statement, known, quoted)
    if first is None:
        return None
    # A claim that joins two sentences of a step is looked at half by half; one that a sentence contradicts is not.
    joins_two = first == "overlap" or bool(sentence and statement.needed & sentence.context - sentence.says.words)
    pieces = taken_apart(statement) if joins_two else []
    return _piecewise(pieces, known, quoted) if len(pieces) > 1 else (first, detail)


def _piecewise(
    pieces: Sequence[Statement], known: Sequence[Sentence], quoted: Mapping[int, frozenset[str]]
) -> tuple[Disagreement, str] | None:
    last = (-1, -1)
    for piece in pieces:
        if not piece.needed:
            continue
        fault, detail, sentence = _closest(piece, known, quoted)
        if fault:
            return fault, detail
        if sentence is not None:
            place = (sentence.step, sentence.place)
            if place < last and any(token.value == "then" and token.kind == "order" for token in piece.tokens):
                return "opposite", "order"
            last = place
    return None


def _closest(
    statement: Statement, known: Sequence[Sentence], quoted: Mapping[int, frozenset[str]]
) -> tuple[Disagreement | None, str, Sentence | None]:
    """Nothing if some sentence supports it, else what is wrong with the one that comes closest."""
    worst: tuple[Disagreement, str, Sentence | None] = ("overlap", "", None)
    fewest = len(statement.needed) + 1
    for sentence in known:
        missing = _missing(statement, sentence, quoted.get(sentence.step, frozenset()))
        if missing is not None and not missing:
            fault = contradiction(statement, sentence)
            if fault is None:
                return None, "", sentence
            if fewest or (worst[2] and statement.needed & worst[2].context - worst[2].says.words):
                worst, fewest = (*fault, sentence), 0
        elif missing is not None and len(missing) < fewest:
            worst, fewest = ("overlap", " ".join(sorted(missing)), None), len(missing)
    return worst


def _missing(statement: Statement, sentence: Sentence, quoted: frozenset[str]) -> frozenset[str] | None:
    """The words that the sentence does not say. None: it adds nothing to its heading and to the sentence before."""
    own = sentence.says.words | quoted
    shared = statement.needed & own
    lent = len(statement.needed & sentence.lent - own)
    if len(shared) < lent or (len(shared) == lent and not sentence.says.needed <= statement.needed):
        return None
    borrowed = len(statement.needed & sentence.context - own)
    if sentence.code and (len(shared) < borrowed or (borrowed and len(shared) == 1)):
        return None
    missing = statement.needed - own - sentence.context
    fillers = missing & _FILLERS
    return missing - fillers if len(fillers) == 1 and len(missing) <= len(shared) else missing
