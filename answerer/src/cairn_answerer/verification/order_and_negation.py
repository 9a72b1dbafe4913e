"""What a sentence denies, and which of its things comes first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cairn_answerer.verification.tokens import Token, words_of
from cairn_answerer.verification.vocabulary import CONDITIONS, PRONOUNS, SCOPE_ENDS

_BACKWARD = frozenset(["does", "do", "did", "is", "are", "was", "were", "has", "have", "can", "will"])


@dataclass(frozen=True)
class Negation:
    """One `not`: the word it falls on, and all words up to where it ends.

    `elliptical`: nothing follows (`drop returns space, deleteMany does not`), so what was said `earlier` is denied.
    """

    anchors: frozenset[str]
    scope: frozenset[str]
    span: tuple[int, int]
    """The tokens of the scope."""
    stands_in: bool = False
    """`without one`: what is denied was named before."""
    elliptical: bool = False
    earlier: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Order:
    """Something comes first. Either side may be unknown."""

    left: frozenset[str]
    right: frozenset[str]
    loose: bool = False
    """Said with `then` alone, which may as well join two sentences of a step."""


def _ends_scope(token: Token) -> bool:
    return not token.code and (token.kind == "mark" or token.form in SCOPE_ENDS)


def negations(tokens: Sequence[Token]) -> Iterator[Negation]:
    start = 0
    for place, token in enumerate(tokens):
        if _ends_scope(token):
            start = place + 1
        if token.kind != "negation":
            continue
        stop = next((later for later in range(place + 1, len(tokens)) if _ends_scope(tokens[later])), len(tokens))
        scope = [item for item in tokens[place + 1 : stop] if item.carries]
        before = [item for item in tokens[start:place] if item.carries]
        if not scope and place + 1 < stop and tokens[place + 1].form in PRONOUNS:
            yield Negation(frozenset(), frozenset(), (place + 1, stop), stands_in=True)
        elif scope:
            yield Negation(frozenset({scope[0].value}), words_of(scope), (place + 1, stop))
        elif before and tokens[place - 1].form in _BACKWARD:
            earlier = words_of(tokens[:start])
            yield Negation(words_of(before), words_of(before), (start, place), elliptical=True, earlier=earlier)
        elif following := next((item for item in tokens[stop:] if item.carries), None):
            # `Do not, if it is full, drop it` denies what comes after the condition, and to be safe all from there on.
            yield Negation(frozenset({following.value}), words_of(tokens[stop:]), (stop, len(tokens)))
        elif before:
            yield Negation(words_of(before), words_of(before), (start, place))


def _breaks(token: Token) -> bool:
    return token.kind in ("mark", "order") or (not token.code and token.form in SCOPE_ENDS)


def orders(tokens: Sequence[Token]) -> Iterator[Order]:
    led = False
    for place, token in enumerate(tokens):
        if token.kind != "order":
            continue
        stop = next((later for later in range(place + 1, len(tokens)) if _breaks(tokens[later])), len(tokens))
        if token.value in ("before", "after"):
            near = words_of(tokens[place + 1 : stop])
            far = words_of(tokens[:place]) or words_of(tokens[stop:])
            if not far:  # `after an OOM kill use half`: where the one ends is not marked, but each has an end of it
                said = [item for item in tokens[place + 1 :] if item.carries]
                near, far = words_of(said[:1]), words_of(said[-1:])
            yield Order(far, near) if token.value == "before" else Order(near, far)
        elif token.value == "first":
            led = True
            start = next((item + 1 for item in reversed(range(place)) if _breaks(tokens[item])), 0)
            then = next((later for later in range(place, len(tokens)) if tokens[later].value == "then"), len(tokens))
            yield Order(words_of(tokens[start:stop]), words_of(tokens[then + 1 :]))
        elif not led and not any(item.form in CONDITIONS for item in tokens[:place]):
            yield Order(words_of(tokens[:place]), words_of(tokens[place + 1 :]), loose=True)
