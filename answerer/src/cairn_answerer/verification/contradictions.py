"""Where a sentence of a claim has only words of a step's sentence and yet says something else.

A negation turned round, another quantity, a condition left out, another order, the opposite of a word, or words taken
from two parts that say different things.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

from cairn_answerer.verification.language import OPPOSITE_STEMS
from cairn_answerer.verification.order_and_negation import Order
from cairn_answerer.verification.statements import Statement
from cairn_answerer.verification.step_sentences import Sentence
from cairn_answerer.verification.vocabulary import NECESSARY, PARTICLES, POSSIBLE


def contradiction(statement: Statement, sentence: Sentence) -> tuple[Literal["negation", "opposite"], str] | None:
    """How the claim contradicts the sentence, if it does."""
    if detail := _turned_round(statement, sentence):
        return "negation", detail
    for differs in (_quantified, _weakened, _unqualified, _reordered, _other_word, _mixed):
        if detail := differs(statement, sentence):
            return "opposite", detail
    return None


def _quantified(statement: Statement, sentence: Sentence) -> str:
    """`all`, `most`, `at least`: the claim may have only those of the sentence."""
    known = sentence.says.operators | (sentence.heading.operators if sentence.heading else frozenset())
    return " ".join(sorted(statement.operators - known))


def _weakened(statement: Statement, sentence: Sentence) -> str:
    """`may` where the sentence has `must`, or the other way round."""
    forms = {token.form for token in statement.tokens if not token.code}
    known = {token.form for token in sentence.says.tokens if not token.code}
    for one, other in ((POSSIBLE, NECESSARY), (NECESSARY, POSSIBLE)):
        if forms & one and not forms & other and known & other and not known & one:
            return min(forms & one)
    return ""


def _mixed(statement: Statement, sentence: Sentence) -> str:
    """A part of the claim takes words from two parts of the sentence that say different things."""
    for before, antecedent, after in sentence.says.relatives:
        if any(part & before and part & after and not part & antecedent for part in statement.parts):
            return "said of something else"
    crosses = not sentence.code and any(_crosses(part, sentence.says.parts) for part in statement.parts)
    return "parts of two clauses" if crosses else ""


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
        if any(word not in statement.negated and not _affirmed(word, statement, says) for word in denied):
            return min(denied)
    shared = statement.words & says.words
    elliptical = any(negation.elliptical for negation in says.negations)
    if says.negations and not statement.negations and not elliptical and shared and shared <= says.negated:
        return min(shared)
    return ""


def _affirmed(word: str, statement: Statement, says: Statement) -> bool:
    """The sentence has the word a second time, outside of a negation, and the claim speaks of what it says there."""
    return word in says.affirmed and any(
        word in part and statement.words & (part - {word}) for part in says.plain_parts
    )


def _unqualified(statement: Statement, sentence: Sentence) -> str:
    """A condition, or the `at most` of a number, that the claim leaves out."""
    only = "only" in statement.operators
    says = sentence.says
    lent = statement.words & sentence.heading.words - says.words if sentence.heading else frozenset()
    borrows = bool(lent) and len(lent) >= len(statement.words & says.words)
    if any(item.only_if for item in (says, sentence.heading if borrows else None) if item) and not only:
        return "only if"
    if not statement.conditional and not only and statement.words & says.conditioned:
        return "condition left out"
    if not statement.hypothetical and statement.words & says.hypothetical:
        return "what happens else"
    for number, comparison in says.compared.items():
        if number in statement.words and comparison not in statement.operators:
            return f"{comparison} {number}"
    return ""


def _reordered(statement: Statement, sentence: Sentence) -> str:
    known = sentence.says.orders
    if not known:
        turned = statement.ordered or _backwards(statement.orders, sentence.says)
    else:
        turned = not all(any(_agree(order, other) for other in known) for order in statement.orders)
    return "order" if statement.orders and turned else ""


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
