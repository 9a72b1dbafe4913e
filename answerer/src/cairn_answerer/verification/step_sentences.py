"""A step as its sentences, each with what it may be read together with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cairn_answerer.code import find_code
from cairn_answerer.verification.statements import Statement, statements
from cairn_answerer.verification.tokens import code_tokens, fenced_lines, tokens


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
                comment = line.lstrip().startswith(("#", "--", "//"))
                says = Statement(tuple(tokens(line) if comment else code_tokens(line)))
                context = about | (heading.words if heading else frozenset())
                yield Sentence(step, place, says, heading, context, frozenset(), code=not comment)
                previous |= says.words
                place += 1
            end = code.end
