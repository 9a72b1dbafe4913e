"""A sentence as what it says: its words, what it negates, in which order things come, and its parts side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from cairn_answerer.verification.order_and_negation import Negation, Order, negations, orders
from cairn_answerer.verification.tokens import Token, words_of
from cairn_answerer.verification.vocabulary import CONDITIONS, JOINTS, PRONOUNS

MAX_TOKENS = 150
"""Where a sentence that does not end is cut: some looks at a sentence take time by the square of its length."""

_SHORT = 3
_SIDE_BY_SIDE = frozenset(["and", "or", "but", "whereas", "while"])


@dataclass(frozen=True)
class Statement:
    """One sentence."""

    tokens: tuple[Token, ...]
    continues: bool = False
    """It stands after a semicolon."""

    @cached_property
    def words(self) -> frozenset[str]:
        """What it says; of `5 min` also the bare number."""
        return words_of(self.tokens)

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
    def only_if(self) -> bool:
        """`only when`, `only after`, `only as a last resort`."""
        return any(
            one.value == "only" and (other.form in _QUALIFIERS or other.value in ("help", "after"))
            for one, other in pairwise(self.tokens)
        )

    @cached_property
    def conditioned(self) -> frozenset[str]:
        """Words that hold only under a condition: of `destructive if misused: it must be empty` the first part."""
        start = 0
        found: frozenset[str] = frozenset()
        for place, token in enumerate([*self.tokens, Token("mark", ":", ":")]):
            if token.value != ":" or token.kind != "mark":
                continue
            part = self.tokens[start:place]
            conditions = [number for number, item in enumerate(part) if item.form in CONDITIONS and not item.code]
            if conditions:
                leads = start == 0 and not any(item.carries for item in part[: conditions[0]])
                found |= self.words if leads else words_of(part)
            start = place + 1
        return found

    @cached_property
    def hypothetical(self) -> frozenset[str]:
        """What happens else: `..., or they refuse to start`, `otherwise nothing is removed`."""
        for place, token in enumerate(self.tokens):
            last = self.tokens[place - 1] if place else None
            if token.form == "otherwise" or (token.form == "or" and last is not None and last.value == ","):
                rest = self.tokens[place + 1 :]
                stop = next((number for number, item in enumerate(rest) if item.kind == "mark"), len(rest))
                return words_of(rest[:stop]) - words_of(self.tokens[:place])
        return frozenset()

    @cached_property
    def relatives(self) -> tuple[tuple[frozenset[str], frozenset[str], frozenset[str]], ...]:
        """`use A and not B, which blocks`: what stands before B, B, and what is said of B."""
        found = []
        for place, token in enumerate(self.tokens):
            if token.form not in ("which", "who", "whose") or token.code:
                continue
            parts = list(_parts(self.tokens[:place]))
            after = next(_parts(self.tokens[place + 1 :]), frozenset())
            if len(parts) > 1:
                found.append((frozenset().union(*parts[:-1]) - parts[-1] - after, parts[-1], after))
        return tuple(found)

    @cached_property
    def compared(self) -> dict[str, str]:
        """Numbers with `above`, `at most` and the like before them."""
        return {
            other.value: one.value
            for one, other in pairwise(self.tokens)
            if other.kind == "number" and one.value in ("<", ">", "<=", ">=")
        }

    @cached_property
    def refers_back(self) -> bool:
        """It speaks of what the sentence before it named."""
        return self.continues or any(token.form in PRONOUNS and not token.code for token in self.tokens)

    @cached_property
    def negations(self) -> tuple[Negation, ...]:
        return tuple(negations(self.tokens))

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
        return words_of(outside)

    @cached_property
    def plain_parts(self) -> tuple[frozenset[str], ...]:
        """The parts in which nothing is denied."""
        return tuple(_parts(self.tokens, denying=False))

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
        return tuple(orders(self.tokens))

    @cached_property
    def parts(self) -> tuple[frozenset[str], ...]:
        """The words of each part between commas or `and`: what may stand side by side."""
        return tuple(_parts(self.tokens))

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Each word with the next one it may belong to: `old` with `primary`."""
        return frozenset(_pairs(self.tokens))


_QUALIFIERS = CONDITIONS | {"as", "with", "inside", "after", "for"}


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
    return [Statement(tuple(piece)) for piece in _with_verbs(found)]


def _with_verbs(pieces: Sequence[Sequence[Token]]) -> Iterator[list[Token]]:
    """`set a to 5 and b to 7`: what follows `and` and is too short to have a verb has that of what went before."""
    verb: Token | None = None
    for piece in pieces:
        said = [item for item in piece if item.carries]
        short = piece[0].form in ("and", "or") and len(said) < _SHORT
        yield [*piece, verb] if short and verb is not None else list(piece)
        if not short and said:
            verb = said[0]


def _parts(tokens: Sequence[Token], *, denying: bool = True) -> Iterator[frozenset[str]]:
    start = 0
    for place, token in enumerate([*tokens, Token("mark", ",", ",")]):
        if token.kind == "mark" or (not token.code and token.form in _SIDE_BY_SIDE):
            piece = tokens[start:place]
            words = frozenset(item.value for item in piece if item.carries)
            if words and (denying or not any(item.kind == "negation" for item in piece)):
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
