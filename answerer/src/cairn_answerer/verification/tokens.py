"""A text as tokens: words in one form, negations, quantifiers, words of order, and the marks between them.

Words inside code spans are words too, so that `do not run` and what not to run stay together; but they neither negate
nor order anything, and no mark inside code ends a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from cairn_answerer.cleaning import plain
from cairn_answerer.code import Code, find_code
from cairn_answerer.verification.language import plain_stem, stem
from cairn_answerer.verification.quantities import UNITS, number_text
from cairn_answerer.verification.vocabulary import LITTLE, NEGATORS, NUMBER_WORDS, OPERATORS, PHRASES

Kind = Literal["word", "number", "step", "operator", "negation", "order", "little", "mark", "end"]


@dataclass(frozen=True)
class Token:
    """One word or mark. `value` is what is compared, `form` what was written, in lower case."""

    kind: Kind
    value: str
    form: str
    code: bool = False

    @property
    def carries(self) -> bool:
        """It says something that a step must say too."""
        return self.kind in ("word", "number", "step")

    @property
    def verb(self) -> str:
        """The stem of the word itself, whatever it may stand for."""
        return plain_stem(self.form)


_WORD = r"[^\W\d_]\w*(?:[.'@-]\w+)*|_\w+"
_UNIT = "|".join(sorted(map(re.escape, UNITS.keys() - {"%"}), key=len, reverse=True))
_TOKEN: Final = re.compile(
    r"(?P<step>\bsteps?\s{1,3}\d{1,3}[a-z]?(?:\s{0,3}(?:-|–|to|and|,)\s{0,3}\d{1,3}\b)*)"
    r"|(?P<number>\d[\d,_]*(?:\.\d+)?)(?P<unit>\s{0,2}-?(?:%|(?:" + _UNIT + r")\b)|[^\W\d_]{1,12}\b)?"
    rf"|(?P<word>{_WORD})"
    r"|(?P<end>[.!?;](?=[\s)*\"']|$)|\n\s*\n|\n\s{0,12}(?:[-*+>|]|\d{1,3}[.)])\s)"
    r"|(?P<mark>[,:()]|\s[-–—]\s|—)",
    re.IGNORECASE,
)
_IN_CODE: Final = re.compile(
    rf"(?P<number>\d[\d,_]*(?:\.\d+)?)(?P<unit>[^\W\d_]{{1,12}}\b|%| (?:{_UNIT})\b)?|(?P<word>{_WORD})"
)
_PHRASES: Final = [(re.compile(pattern), replacement) for pattern, replacement in PHRASES]
_ORDER: Final = {"before": "before", "after": "after", "afterwards": "after", "first": "first", "then": "then"}
_DETERMINERS: Final = ("the", "a", "an", "its", "this", "that", "in", "at")
_GERUND_AFTER: Final = ("before", "after", "by", "of", "insteadof", "from")
_NUMBER_WORD: Final = re.compile(rf"\b(?:{'|'.join(NUMBER_WORDS)})\b")


def tokens(text: str) -> list[Token]:
    """Prose with its code spans; fences are left out."""
    found: list[Token] = []
    end = 0
    for code in find_code(text):
        found.extend(_prose(text[end : code.start], found))
        found.extend([Token("end", ".", ".")] if code.fenced else code_tokens(code.text))
        end = code.end
    found.extend(_prose(text[end:], found))
    return found


def words_of(tokens: Sequence[Token]) -> frozenset[str]:
    """What they say; of `5 min` also the bare number, but not of `5 %`."""
    found = {token.value for token in tokens if token.carries}
    found.update(token.value.split()[0] for token in tokens if token.kind == "number" and "%" not in token.value)
    return frozenset(found)


def _prose(text: str, before: list[Token]) -> Iterator[Token]:
    text = plain(text).lower()
    for pattern, replacement in _PHRASES:
        text = pattern.sub(replacement, text)
    text = _NUMBER_WORD.sub(lambda match: NUMBER_WORDS[match[0]], text)
    last = before[-1].form if before else ""
    for match in _TOKEN.finditer(text):
        token = _token(match, last)
        last = token.form
        yield token


def _token(match: re.Match[str], last: str) -> Token:
    if match["step"]:
        numbers = " ".join(re.findall(r"\d+[a-z]?", match["step"]))
        return Token("step", f"step {numbers}", match["step"])
    if match["number"]:
        return _number(match)
    if match["end"]:
        return Token("end", ".", match["end"])
    if match["mark"]:
        return Token("mark", match["mark"].strip(), match["mark"].strip())
    return _word(match["word"], last)


def _number(match: re.Match[str]) -> Token:
    number, unit = number_text(match["number"].rstrip(",_")), (match["unit"] or "")
    name = UNITS.get(unit.strip(" -").lower())
    if name:
        return Token("number", f"{number} {name}", match[0])
    if unit and not unit[0].isspace():
        return Token("number", f"{number}{unit}", match[0])  # `60k` is no 60
    return Token("number", number, match["number"])


def _word(word: str, last: str) -> Token:
    bare = word.removesuffix("'s")
    if bare in NEGATORS or bare.endswith("n't"):
        return Token("negation", "not", word)
    if bare in _ORDER and not (bare == "first" and last in _DETERMINERS):
        return Token("order", _ORDER[bare], word)
    if bare in OPERATORS:
        return Token("operator", OPERATORS[bare], word)
    helps = bare == "running" and last in _GERUND_AFTER  # `before running it`, but not `the running one`
    little = bare == "later" or (bare in LITTLE and bare != "first") or (len(bare) == 1 and bare.isascii())
    if helps or little:
        return Token("little", bare, word)
    return Token("word", stem(bare), bare)


def code_tokens(text: str) -> list[Token]:
    """The words and numbers of a piece of code."""
    found: list[Token] = []
    for match in _IN_CODE.finditer(plain(text)):
        if match["number"]:
            token = _number(match)
            found.append(Token("number", token.value, token.form, code=True))
        else:
            found.append(_code_word(match["word"]))
    return found


def _code_word(word: str) -> Token:
    word = word.lower()
    return Token("word", f"`{word}" if word in LITTLE and len(word) > 1 else stem(word), word, code=True)


def fenced_lines(code: Code) -> list[str]:
    """Lines of a fence, and its statements that go over several lines."""
    lines = code.text.replace("\\\n", " ").splitlines()
    found = [line for line in lines if line.strip()]
    if len(found) > 1:
        found.extend(part for part in " ".join(found).split(";") if part.strip() and part.strip() not in found)
    return found
