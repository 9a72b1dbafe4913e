"""Does one sentence of a step say what a sentence of a claim says?

A claim is compared with one sentence at a time, never with a step as a whole: in a step of five sentences every word
of a lie can be found somewhere. A sentence of a step brings along the step's heading and, where it says `it` or
`them`, the sentence before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from cairn_answerer.code import find_code
from cairn_answerer.language import OPPOSITE_STEMS
from cairn_answerer.statements import Order, Statement, statements, taken_apart
from cairn_answerer.tokens import code_tokens, fenced_lines, tokens
from cairn_answerer.vocabulary import PARTICLES
from cairn_answerer.words import word_set

Disagreement = Literal["overlap", "negation", "opposite"]

_FILLERS = word_set("set server option parameter sett statement possible session enough")
"""Stems of words that a claim may add to a sentence, one at a time: `set it to 1` for `it must be 1`."""


@dataclass(frozen=True)
class Sentence:
    """A sentence, a heading or a line of code of a step, with what it may be read together with."""

    step: int
    place: int
    says: Statement
    heading: Statement | None
    context: frozenset[str]
    """Words of the title, the heading, and of the sentence before where this one speaks of it."""
    lent: frozenset[str]
    """Those of the sentence before."""
    code: bool = False


def sentences_of(step: int, text: str, title: str) -> Iterator[Sentence]:
    """All sentences of a step's text."""
    about = Statement(tuple(tokens(title))).words
    heading: Statement | None = None
    previous: frozenset[str] = frozenset()
    place = end = 0
    for code in [*(code for code in find_code(text) if code.fenced), None]:
        for says in statements(tokens(text[end : code.start if code else len(text)])):
            context = about | (heading.words if heading else frozenset())
            back = says.refers_back or any(negation.elliptical for negation in says.negations)
            lent = previous - context if back else frozenset()
            yield Sentence(step, place, says, heading, context | lent, lent)
            heading = heading or says
            previous = says.words
            place += 1
        if code:
            for line in fenced_lines(code):
                says = Statement(tuple(code_tokens(line)))
                context = about | (heading.words if heading else frozenset())
                yield Sentence(step, place, says, heading, context, frozenset(), code=True)
                previous |= says.words
                place += 1
            end = code.end


def compare(text: str, known: Sequence[Sentence]) -> Iterator[tuple[Disagreement, str]]:
    """What of `text` no sentence among `known` says, or that one says the opposite."""
    quoted = _quoted(text, known)
    said = list(statements(tokens(text)))
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
            fault = _contradiction(statement, sentence)
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
    if len(shared) < max(1, len(statement.needed & sentence.lent - own)):
        return None
    missing = statement.needed - own - sentence.context
    fillers = missing & _FILLERS
    return missing - fillers if len(fillers) == 1 and len(missing) <= len(shared) else missing


def _contradiction(statement: Statement, sentence: Sentence) -> tuple[Disagreement, str] | None:
    if detail := _turned_round(statement, sentence):
        return "negation", detail
    heading = sentence.heading.operators if sentence.heading else frozenset()
    if extra := statement.operators - sentence.says.operators - heading:
        return "opposite", " ".join(sorted(extra))
    if _reordered(statement, sentence):
        return "opposite", "order"
    if detail := _other_word(statement, sentence):
        return "opposite", detail
    if not sentence.code and any(_crosses(part, sentence.says.parts) for part in statement.parts):
        return "opposite", "parts of two clauses"
    return None


def _turned_round(statement: Statement, sentence: Sentence) -> str:
    """A word on which a negation falls here and not there."""
    if sentence.code:
        return " ".join(word for item in statement.negations for word in item.anchors)[:60]
    says = sentence.says
    for negation in statement.negations:
        known = says.negated
        if any(item.stands_in for item in says.negations):
            known |= sentence.context
        if sentence.heading and not says.negations:
            known |= sentence.heading.negated
        if not (negation.anchors & known or (negation.stands_in and says.negations)):
            return min(negation.anchors, default="not")
    for negation in says.negations:
        denied = negation.anchors & statement.words
        said_before = (negation.earlier - negation.anchors) | (sentence.context - says.words)
        if negation.elliptical and not statement.words & said_before:
            continue  # nothing of what is denied is said
        if any(word not in statement.negated and word not in says.affirmed for word in denied):
            return min(denied)
    shared = statement.words & says.words
    elliptical = any(negation.elliptical for negation in says.negations)
    if says.negations and not statement.negations and not elliptical and shared and shared <= says.negated:
        return min(shared)
    return ""


def _reordered(statement: Statement, sentence: Sentence) -> bool:
    if not statement.orders:
        return False
    known = sentence.says.orders
    if not known:
        return statement.ordered or _backwards(statement.orders, sentence.says)
    return not all(any(_agree(order, other) for other in known) for order in statement.orders)


def _backwards(orders: Sequence[Order], says: Statement) -> bool:
    """`a, then b` where the sentence names b and only then a."""
    places: dict[str, int] = {}
    for place, token in enumerate(says.tokens):
        places.setdefault(token.value, place)
    for order in orders:
        left = [places[word] for word in order.left if word in places]
        right = [places[word] for word in order.right if word in places]
        if left and right and min(left) > min(right):
            return True
    return False


def _agree(order: Order, other: Order) -> bool:
    if order.left and other.left and not order.left & other.left:
        return order.loose and not order.left & other.right
    same = len(order.left & other.left) + len(order.right & other.right)
    turned = len(order.left & other.right) + len(order.right & other.left)
    return same > turned or (same == turned and not (order.left and other.left and order.right and other.right))


def _other_word(statement: Statement, sentence: Sentence) -> str:
    """`old primary` where the sentence has `new primary`, `on` where it has `off`."""
    borrowed = statement.words & sentence.context - sentence.says.words
    for word in borrowed & sentence.lent:
        if OPPOSITE_STEMS.get(word, frozenset()) & sentence.says.words:
            return word  # of the sentence before, where this one says the opposite
    pairs = sentence.says.pairs | (sentence.heading.pairs if sentence.heading else frozenset())
    for word, following in statement.pairs:
        if (word, following) in pairs:
            continue
        if any((other, following) in pairs for other in OPPOSITE_STEMS.get(word, ())):
            return word
    if sentence.heading:
        first, own = statement.subject, sentence.says.subject
        if {first, own} <= sentence.heading.words and first not in sentence.says.words and own not in statement.words:
            return first
        for one, other in sentence.heading.alternatives:
            if one in statement.words - sentence.says.words and other in sentence.says.words - statement.words:
                return one
    forms = {token.form for token in statement.tokens if not token.code}
    known = {token.form for token in sentence.says.tokens if not token.code}
    for one, other in PARTICLES:
        for word, opposite in ((one, other), (other, one)):
            if word in forms and opposite in known and word not in known and opposite not in forms:
                return word
    return ""


def _crosses(part: frozenset[str], known: Sequence[frozenset[str]]) -> bool:
    """The part takes words from two that stand side by side: `freeze` of one, `the primary` of the other."""
    touched = [other for other in known if part & other]
    if any(part <= other for other in touched):
        return False
    for one, other in combinations(touched, 2):
        only_one, only_other = one - other, other - one
        if part & only_one and part & only_other and only_one - part and only_other - part:
            return True
    return False
