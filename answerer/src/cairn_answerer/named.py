"""Steps that a step names as done before: "the backup of step 2", "Schritt 3", "手順1".

What counts as a reference is a number that labels an earlier step of the same runbook, behind a word that stands for
a step. Cairn's own word is known, it is in every marker. The others are learned from the runbook: the word of its
numbered headings, and a word that stands before two labels or more and before no number that is none.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from cairn_answerer.model import Passage

STEP_WORD = "step"
_ENDING = 2
"""Letters that a plural or a case may add to a word."""

_NUMBER = r"\d{1,3}[a-z]?(?![0-9A-Za-z_]|\.\d|%)"
_REFERENCE = re.compile(
    rf"(?<![\w-])([^\W\d_]{{2,30}})[\s#№.:(]{{0,3}}({_NUMBER})"
    rf"((?:\s{{0,2}}(?:[-–,/&]|[^\W\d_]{{1,3}})\s{{0,2}}(?:[^\W\d_]{{1,3}}\s{{1,2}})?{_NUMBER}){{0,8}})"
)
_DIGITS = re.compile(r"(\d{1,3}[a-z]?)(?:\s{0,2}[-–]\s{0,2}(\d{1,3}))?")
_HEADING = re.compile(r"#{1,6}\s+([^\W\d_]{2,30})\s{0,2}\d")


def named_before(passage: Passage, others: Sequence[Passage]) -> list[Passage]:
    """The steps among `others` that `passage` names and that stand before it in the same runbook, in order."""
    runbook = [other for other in others if other.document_id == passage.document_id]
    words = step_words([passage, *runbook])
    earlier = {other.number: other for other in runbook if other.number < passage.number}
    found: dict[int, Passage] = {}
    for word, numbers in _references(passage.text):
        if _stands_for_a_step(word, words):
            for number in numbers:
                for other in _labelled(number, passage, earlier):
                    found[other.number] = other
    return [found[number] for number in sorted(found)]


def may_name_others(passage: Passage, gathered: Sequence[Passage]) -> bool:
    """There is a number in `passage` that may label an earlier step which was not gathered."""
    known = {other.label.casefold() for other in gathered if other.document_id == passage.document_id}
    numbers = {number for _, found in _references(passage.text) for number in found}
    return any(number not in known and int(number.rstrip("abcdefghijklmnopqrstuvwxyz")) > 0 for number in numbers)


def step_words(steps: Sequence[Passage]) -> frozenset[str]:
    """The words by which a runbook calls its steps, folded."""
    labels = {step.label.casefold() for step in steps}
    before: dict[str, set[str]] = defaultdict(set)
    for step in steps:
        for word, numbers in _references(step.text):
            before[word].update(numbers)
    learned = {word for word, numbers in before.items() if len(numbers) > 1 and numbers <= labels}
    headings = {match[1].casefold() for step in steps if (match := _HEADING.match(step.text))}
    return frozenset({STEP_WORD, *learned, *headings})


def _stands_for_a_step(word: str, words: frozenset[str]) -> bool:
    """`words` with an ending, or at the end of a run of letters where words have no space between them."""
    return any(
        (word.startswith(known) and len(word) <= len(known) + _ENDING) or (not known.isascii() and word.endswith(known))
        for known in words
    )


@lru_cache(maxsize=2048)
def _references(text: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """(word, numbers) of each place that reads like a reference. Cached: a plan is looked at with each of its items."""
    return tuple(_found(text))


def _found(text: str) -> Iterator[tuple[str, frozenset[str]]]:
    for match in _REFERENCE.finditer(text):
        numbers: set[str] = set()
        for first, last in _DIGITS.findall(match[2] + match[3]):
            numbers.add(first.casefold())
            if last and first.isdigit():
                numbers.update(str(number) for number in range(int(first), min(int(last), int(first) + 20) + 1))
        yield match[1].casefold(), frozenset(numbers)


def _labelled(number: str, passage: Passage, earlier: Mapping[int, Passage]) -> list[Passage]:
    """Labels may come again in another section: the step's own section goes first."""
    found = [other for other in earlier.values() if other.label.casefold() == number]
    own = [other for other in found if other.section == passage.section]
    return own or (found if len(found) == 1 else [])
