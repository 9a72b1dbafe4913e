"""Is a claim supported by the steps that it cites? Deterministic checks, because an engineer will paste what it says.

Whatever can be executed or measured must stand in a cited step as it is (`literals`). What is hard to take back must be
done there to the same thing (`risk`). Every sentence must be said by a sentence of one step (`alignment`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cairn_answerer.citations import Resolver, extract, supported
from cairn_answerer.cleaning import folded, visible
from cairn_answerer.code import find_code, without_code
from cairn_answerer.model import CheckedClaim, DraftClaim, Shown
from cairn_answerer.verification import alignment, risk
from cairn_answerer.verification.alignment import Disagreement
from cairn_answerer.verification.evidence import Evidence
from cairn_answerer.verification.literals import LiteralFault, literal_faults

Fault = LiteralFault | Disagreement | Literal["no citation", "risky verb", "empty"]


@dataclass(frozen=True)
class Verdict:
    """A checked claim, or what is wrong with it."""

    claim: CheckedClaim | None
    fault: Fault | None = None
    detail: str = ""


class Checker:
    """Checks claims against what one request has shown. `values` are an alert's labels."""

    def __init__(self, resolver: Resolver, values: Mapping[str, str]) -> None:
        self._resolver = resolver
        self._values = values
        self._evidence: dict[tuple[str, ...], Evidence] = {}

    def check(self, draft: DraftClaim) -> Verdict:
        """The claim with its support, or the first fault found."""
        extracted = extract(visible(draft.text), self._resolver)
        text = _tidy(extracted.text)
        if not text:
            return Verdict(None, "empty")
        cited, _ = supported((*draft.references, *extracted.references), self._resolver)
        if not cited:
            return Verdict(None, "no citation")
        for fault, detail in _faults(text, cited, self._of(cited)):
            return Verdict(None, fault, detail)
        return Verdict(CheckedClaim(text=text, support=tuple(item.passage for item in cited)))

    def _of(self, cited: Sequence[Shown]) -> Evidence:
        keys = tuple(item.key for item in cited)
        if keys not in self._evidence:
            self._evidence[keys] = Evidence.of(cited, self._values)
        return self._evidence[keys]


def _faults(text: str, cited: Sequence[Shown], evidence: Evidence) -> Iterator[tuple[Fault, str]]:
    yield from literal_faults(text, without_code(text), cited, evidence)
    for verb in risk.unsupported(text, evidence.uses):
        yield "risky verb", verb
    yield from alignment.compare(_OWN_STEP.sub("", text), evidence.sentences)


_BULLET = re.compile(r"^\s*(?:[-*+•]|\d{1,2}[.)])\s+(?=\S)")
_HEADING = re.compile(r"^#{1,6}\s+", re.MULTILINE)


_SENTENCE = re.compile(r"(?<=[.!?])[ \t]{1,4}(?=[A-Z`])")
_OWN_STEP = re.compile(r"^step\s{1,3}\d{1,3}[a-z]?\s{0,3}[:.)-]\s{1,3}", re.IGNORECASE)


def _tidy(text: str) -> str:
    text = _HEADING.sub("", _BULLET.sub("", text.strip(), count=1)).strip()
    return text if find_code(text) and "```" in text else " ".join(_once(_SENTENCE.split(text)))


def _once(sentences: Sequence[str]) -> Iterator[str]:
    """A model that repeats itself is not repeated."""
    seen: set[str] = set()
    for sentence in sentences:
        if (form := folded(sentence)) not in seen:
            seen.add(form)
            yield sentence
