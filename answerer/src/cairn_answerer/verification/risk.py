"""What is hard to take back: a claim may only do to something what a step does to that very thing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cairn_answerer.verification.language import RISKY_STEMS, stem
from cairn_answerer.verification.statements import Statement, statements
from cairn_answerer.verification.step_sentences import Sentence
from cairn_answerer.verification.tokens import Token, tokens
from cairn_answerer.verification.vocabulary import KINDS_OF_THINGS
from cairn_answerer.words import word_set

_ARTICLES = word_set("the a an its their your this that these those any some such")
_NOUN_BEFORE = _ARTICLES | word_set("no of without after before per by")
_MODAL = word_set("would will can could may might is was")
_BE = word_set("is are was were be been being get gets got")
_CLAUSE = word_set(
    "and or but because since so whereas while which who whose where if when until then otherwise whether although"
)
_OBJECT_GOES_ON = word_set("of and or")
_KINDS = frozenset(map(stem, KINDS_OF_THINGS))
_LONGEST_OBJECT = 8


@dataclass(frozen=True)
class Use:
    """A risky verb as a verb: `group` is its place in the list, `objects` what it is done to."""

    group: int
    verb: str
    objects: frozenset[str]
    code: frozenset[str]
    """The words of the command, where it stands in one."""
    condition: bool
    phrase: frozenset[str] = frozenset()
    """The words right behind the verb: whoever drops one of `abandoned sessions` or `old server connections` lies."""


def uses_of(known: Sequence[Sentence]) -> tuple[Use, ...]:
    """All that steps do that is hard to take back."""
    return tuple(use for sentence in known for use in _uses(sentence.says, in_step=True))


def unsupported(text: str, uses: Sequence[Use]) -> Iterator[str]:
    """The risky verbs of a claim that no step uses of the same thing."""
    claim = list(statements(tokens(text)))
    said = frozenset().union(*(statement.words for statement in claim))
    for statement in claim:
        found = list(_uses(statement, in_step=False))
        # `Restart it with <a command of the step that restarts>`: the command itself was checked letter by letter.
        quoted = {use.group for use in found if use.code and use.objects}
        for use in found:
            if not use.code and use.group in quoted and any(use.group == other.group and other.code for other in uses):
                continue
            if not any(_supports(other, use, said) for other in uses):
                yield use.verb


def _supports(known: Use, use: Use, said: frozenset[str]) -> bool:
    """`said` are all words of the claim: of a command it has to say more than `drop the table`."""
    if known.group != use.group or not use.objects <= known.objects or (known.condition and not use.condition):
        return False
    if use.objects & known.phrase and not known.phrase <= said:
        return False
    return not known.code or use.condition or not use.objects <= _KINDS or bool(said & known.code - use.objects)


def _uses(statement: Statement, *, in_step: bool) -> Iterator[Use]:
    said = statement.tokens
    for place, token in enumerate(said):
        if token.kind != "word":
            continue
        for group, (verbs, names) in enumerate(RISKY_STEMS):
            if token.verb in (names if in_step else verbs):
                objects = _objects(said, place, in_step=in_step)
                if objects is not None:
                    command = (statement.words - {token.value}) if token.code else frozenset()
                    condition = not token.code and (statement.conditional or "only" in statement.operators)
                    phrase = _phrase(said, place) if objects and not token.code else frozenset()
                    yield Use(group, token.form, objects, command, condition, phrase)


def _objects(said: Sequence[Token], place: int, *, in_step: bool) -> frozenset[str] | None:
    """What the verb at `place` is done to; None where the word is no verb: `a restart`, `the removed pods`.

    Of a step all that follows in the sentence counts, of a claim only up to where the object ends.
    """
    token = said[place]
    if not token.code:
        before = said[place - 1] if place else None
        following = said[place + 1] if place + 1 < len(said) else None
        if token.form.endswith("ed"):
            passive = any(item.form in _BE for item in said[max(0, place - 3) : place])
            return _back_from(said, place, in_step=in_step) if passive else None
        if _is_noun(token, before, following):
            return None
    return _until(said, place, in_step=in_step)


def _phrase(said: Sequence[Token], place: int) -> frozenset[str]:
    found: set[str] = set()
    for item in said[place + 1 :]:
        if item.carries:
            found.add(item.value)
        elif item.form not in _ARTICLES and item.kind != "operator":
            break
    return frozenset(found)


def _is_noun(token: Token, before: Token | None, following: Token | None) -> bool:
    if token.form.endswith("ing"):
        return following is not None and following.form in _MODAL  # `stopping would roll it back`
    if before is not None and before.form in _NOUN_BEFORE and not before.code:
        return True
    # `the count drops by`, `some restarts.`
    return token.form.endswith("s") and (following is None or not (following.carries or following.form in _ARTICLES))


def _until(said: Sequence[Token], place: int, *, in_step: bool) -> frozenset[str]:
    found: set[str] = set()
    in_code = said[place].code and place + 1 < len(said) and said[place + 1].code
    if place + 1 < len(said) and said[place + 1].form in ("and", "or"):
        return frozenset()  # `stop and call security`
    for item in said[place + 1 :]:
        if in_code and not item.code:
            break
        if in_step:
            if item.kind == "mark" and item.value not in "()":
                break
        elif (
            item.kind in ("mark", "order")
            or len(found) >= _LONGEST_OBJECT
            or (
                item.kind == "little"
                and not item.code
                and item.form not in _ARTICLES
                and item.form not in _OBJECT_GOES_ON
            )
        ):
            break
        if item.kind == "word":
            found.add(item.value)
    return frozenset(found)


def _back_from(said: Sequence[Token], place: int, *, in_step: bool) -> frozenset[str]:
    """The subject of a passive: `the files are removed`."""
    found: set[str] = set()
    for item in reversed(said[:place]):
        if (item.kind == "mark" or (item.form in _CLAUSE and not item.code)) and not in_step:
            break
        if item.kind == "word":
            found.add(item.value)
    return frozenset(found)
