"""A sentence as what it says: its words, what it negates, in which order things come, and its parts side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from cairn_answerer.tokens import Token
from cairn_answerer.vocabulary import CONDITIONS, JOINTS, SCOPE_ENDS

MAX_TOKENS = 150
"""Where a sentence that does not end is cut: some looks at a sentence take time by the square of its length."""

_BACKWARD = frozenset(["does", "do", "did", "is", "are", "was", "were", "has", "have", "can", "will"])
_SIDE_BY_SIDE = frozenset(["and", "or", "but", "whereas", "while"])


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


@dataclass(frozen=True)
class Statement:
    """One sentence."""

    tokens: tuple[Token, ...]
    continues: bool = False
    """It stands after a semicolon."""

    @cached_property
    def words(self) -> frozenset[str]:
        """What it says; of `5 min` also the bare number."""
        return _words(self.tokens)

    @cached_property
    def needed(self) -> frozenset[str]:
        """What a step must say for this to be supported."""
        return frozenset(token.value for token in self.tokens if token.carries)

    @cached_property
    def subject(self) -> str:
        """The first word that says something."""
        return next((token.value for token in self.tokens if token.carries), "")

    @cached_property
    def operators(self) -> frozenset[str]:
        return frozenset(token.value for token in self.tokens if token.kind == "operator")

    @cached_property
    def ordered(self) -> bool:
        return any(token.kind == "order" and token.value != "then" for token in self.tokens)

    @cached_property
    def conditional(self) -> bool:
        return any(token.form in CONDITIONS and not token.code for token in self.tokens)

    @cached_property
    def refers_back(self) -> bool:
        """It speaks of what the sentence before it named."""
        return self.continues or any(token.form in _PRONOUNS and not token.code for token in self.tokens)

    @cached_property
    def negations(self) -> tuple[Negation, ...]:
        return tuple(_negations(self.tokens))

    @cached_property
    def negated(self) -> frozenset[str]:
        return frozenset().union(*(item.scope for item in self.negations))

    @cached_property
    def affirmed(self) -> frozenset[str]:
        """Words that stand outside of every negation."""
        spans = [item.span for item in self.negations]
        outside = [
            token for place, token in enumerate(self.tokens) if not any(start <= place < stop for start, stop in spans)
        ]
        return _words(outside)

    @cached_property
    def alternatives(self) -> frozenset[tuple[str, str]]:
        """`cancel or terminate`: a sentence about the one is not about the other."""
        found: set[tuple[str, str]] = set()
        for one, joint, other in zip(self.tokens, self.tokens[1:], self.tokens[2:], strict=False):
            if joint.form in ("or", "and") and one.carries and other.carries:
                found |= {(one.value, other.value), (other.value, one.value)}
        return frozenset(found)

    @cached_property
    def orders(self) -> tuple[Order, ...]:
        return tuple(_orders(self.tokens))

    @cached_property
    def parts(self) -> tuple[frozenset[str], ...]:
        """The words of each part between commas or `and`: what may stand side by side."""
        return tuple(_parts(self.tokens))

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Each word with the next one it may belong to: `old` with `primary`."""
        return frozenset(_pairs(self.tokens))


_PRONOUNS = frozenset(["it", "its", "this", "that", "they", "them", "these", "those", "one"])


def statements(tokens: Sequence[Token]) -> Iterator[Statement]:
    """The sentences of a text."""
    start = 0
    continues = False
    for place, token in enumerate([*tokens, Token("end", ".", ".")]):
        if token.kind == "end" or place - start >= MAX_TOKENS:
            if any(item.carries or item.kind in ("negation", "order") for item in tokens[start:place]):
                yield Statement(tuple(tokens[start:place]), continues)
            start = place + 1
            # `...; only for tables that` goes on with what was said, `...; a queue should not` does not.
            after = tokens[place + 1] if place + 1 < len(tokens) else None
            continues = token.form == ";" and after is not None and after.kind == "operator"


def taken_apart(statement: Statement) -> list[Statement]:
    """The sentence at its joints, each half with something to say. A condition stays with what it is a condition of."""
    found: list[list[Token]] = [[]]
    for token in statement.tokens:
        joint = token.kind in ("little", "order") and token.form in JOINTS and not token.code
        if statement.conditional:
            joint = joint and token.form in ("because", "since", "so", "but", "which")
        elif token.kind == "mark":
            joint = token.value != ":"  # `mostly idle: a pool leaks` is one thing
        if joint and token.form in ("and", "or") and any(item.kind == "negation" for item in found[-1]):
            joint = False  # `not a or b` denies both
        if joint and any(item.carries for item in found[-1]):
            found.append([])
        found[-1].append(token)
    if len(found) > 1 and not any(item.carries for item in found[-1]):
        found[-2].extend(found.pop())
    return [Statement(tuple(piece)) for piece in found]


def _words(tokens: Sequence[Token]) -> frozenset[str]:
    found = {token.value for token in tokens if token.carries}
    found.update(token.value.split()[0] for token in tokens if token.kind == "number")
    return frozenset(found)


def _ends_scope(token: Token) -> bool:
    return not token.code and (token.kind == "mark" or token.form in SCOPE_ENDS)


def _negations(tokens: Sequence[Token]) -> Iterator[Negation]:
    start = 0
    for place, token in enumerate(tokens):
        if _ends_scope(token):
            start = place + 1
        if token.kind != "negation":
            continue
        stop = next((later for later in range(place + 1, len(tokens)) if _ends_scope(tokens[later])), len(tokens))
        scope = [item for item in tokens[place + 1 : stop] if item.carries]
        before = [item for item in tokens[start:place] if item.carries]
        if not scope and place + 1 < stop and tokens[place + 1].form in _PRONOUNS:
            yield Negation(frozenset(), frozenset(), (place + 1, stop), stands_in=True)
        elif scope:
            yield Negation(frozenset({scope[0].value}), _words(scope), (place + 1, stop))
        elif before and tokens[place - 1].form in _BACKWARD:
            earlier = _words(tokens[:start])
            yield Negation(_words(before), _words(before), (start, place), elliptical=True, earlier=earlier)
        elif following := next((item for item in tokens[stop:] if item.carries), None):
            # `Do not, if it is full, drop it` denies what comes after the condition, and to be safe all from there on.
            yield Negation(frozenset({following.value}), _words(tokens[stop:]), (stop, len(tokens)))
        elif before:
            yield Negation(_words(before), _words(before), (start, place))


def _breaks(token: Token) -> bool:
    return token.kind in ("mark", "order") or (not token.code and token.form in SCOPE_ENDS)


def _orders(tokens: Sequence[Token]) -> Iterator[Order]:
    led = False
    for place, token in enumerate(tokens):
        if token.kind != "order":
            continue
        stop = next((later for later in range(place + 1, len(tokens)) if _breaks(tokens[later])), len(tokens))
        if token.value in ("before", "after"):
            near = _words(tokens[place + 1 : stop])
            far = _words(tokens[:place]) or _words(tokens[stop:])
            if not far:  # `after an OOM kill use half`: where the one ends is not marked, but each has an end of it
                said = [item for item in tokens[place + 1 :] if item.carries]
                near, far = _words(said[:1]), _words(said[-1:])
            yield Order(far, near) if token.value == "before" else Order(near, far)
        elif token.value == "first":
            led = True
            start = next((item + 1 for item in reversed(range(place)) if _breaks(tokens[item])), 0)
            then = next((later for later in range(place, len(tokens)) if tokens[later].value == "then"), len(tokens))
            yield Order(_words(tokens[start:stop]), _words(tokens[then + 1 :]))
        elif not led and not any(item.form in CONDITIONS for item in tokens[:place]):
            yield Order(_words(tokens[:place]), _words(tokens[place + 1 :]), loose=True)


def _parts(tokens: Sequence[Token]) -> Iterator[frozenset[str]]:
    start = 0
    for place, token in enumerate([*tokens, Token("mark", ",", ",")]):
        if token.kind == "mark" or (not token.code and token.form in _SIDE_BY_SIDE):
            piece = tokens[start:place]
            if words := frozenset(item.value for item in piece if item.carries):
                yield words
            start = place + 1


def _pairs(tokens: Sequence[Token]) -> Iterator[tuple[str, str]]:
    last: str | None = None
    for token in tokens:
        if token.kind == "mark" or (not token.code and token.form in _SIDE_BY_SIDE):
            last = None
        elif token.carries or token.kind == "operator":
            if last is not None:
                yield last, token.value
            last = token.value
