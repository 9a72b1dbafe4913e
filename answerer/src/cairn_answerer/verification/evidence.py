"""The text of cited steps in the forms that checks compare with: literally, as numbers with units, as clauses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cairn_answerer.cleaning import folded, joined, squeezed
from cairn_answerer.injection import WITHHELD
from cairn_answerer.model import Shown
from cairn_answerer.placeholders import fill
from cairn_answerer.verification.quantities import digits, quantities, without_steps
from cairn_answerer.verification.risk import Use, uses_of
from cairn_answerer.verification.step_sentences import Sentence, sentences_of
from cairn_shared.identifiers import identifiers


@dataclass(frozen=True)
class Evidence:
    """The text of the cited steps in the forms that the checks compare with."""

    raw: str
    squeezed: str
    joined: str
    """On one line, with every character as the step has it."""
    folded: str
    sentences: tuple[Sentence, ...]
    uses: tuple[Use, ...]
    numbers: frozenset[str]
    quantities: frozenset[tuple[str, str]]
    identifiers: frozenset[str]
    has_runbook: bool

    @classmethod
    def of(cls, cited: Sequence[Shown], values: Mapping[str, str]) -> Evidence:
        """From what was shown; `values` are an alert's labels, with which commands may have been filled in."""
        texts = [item.text.replace(WITHHELD, "") for item in cited]  # a note of ours says nothing of the step
        filled = [fill(text, values).text for text in texts] if values else []
        heads = [f"{item.passage.title}\n{item.passage.section}" for item in cited]
        raw = "\n".join([*texts, *(text for text in filled if text not in texts)])
        about = "\n".join([*heads, raw])
        # On one line, so that a number and its unit may be on two; without `go to step 3`, which is no quantity.
        measured = without_steps(squeezed(about))
        amounts = frozenset(quantities(measured))
        sentences = tuple(
            sentence
            for place, (head, *forms) in enumerate(zip(heads, texts, filled or texts, strict=True))
            for text in dict.fromkeys(forms)
            for sentence in sentences_of(place, text, head)
        )
        return cls(
            raw=raw,
            squeezed=squeezed(raw),
            joined=joined(raw),
            folded=folded(about),
            sentences=sentences,
            uses=uses_of(sentences),
            numbers=frozenset(number for number, _ in amounts) | frozenset(digits(measured)),
            quantities=amounts,
            identifiers=frozenset(identifiers(about)),
            has_runbook=any(item.passage.is_runbook for item in cited),
        )


_EDGE = re.compile(r"[\w\-/=*@$%+~\\]")
_END_OF_COMMAND = re.compile(r"\s*(?:[;|`)\"'\]}]|&&|$)")


def whole(piece: str, text: str) -> bool:
    """`piece` occurs in `text` as a whole: `-f` does not occur in `--force`, nor `/data` in `/data/x`."""
    start = text.find(piece) if piece else -1
    while start >= 0:
        end = start + len(piece)
        before, after = text[start - 1 : start], text[end : end + 2]
        left = not (_EDGE.match(before) and _EDGE.match(piece[0]))
        right = not (_EDGE.match(piece[-1]) and (_EDGE.match(after) or re.match(r"[.:]\w", after)))
        if left and right:
            return True
        start = text.find(piece, start + 1)
    return False


def complete(piece: str, raw: str) -> bool:
    """In some line of the step the command ends where `piece` ends: no option and no WHERE was left out."""
    lines = [squeezed(line) for line in raw.replace("\\\n", " ").split("\n")]
    lines.append(squeezed(raw))  # statements over several lines
    for place, line in enumerate(lines):
        start = line.find(piece)
        while start >= 0:
            rest = line[start + len(piece) :]
            alone = place < len(lines) - 1 and not rest.strip() and not line.endswith("\\")
            if (
                piece.rstrip().endswith(";")
                or (_END_OF_COMMAND.match(rest) and rest.strip())
                or (alone and not _sql_goes_on(lines, place))
            ):
                return True
            start = line.find(piece, start + 1)
    return False


def _sql_goes_on(lines: Sequence[str], place: int) -> bool:
    following = lines[place + 1] if place + 2 < len(lines) else ""
    return re.match(r"(?:where|and|or|limit|from|set|using|on|order|returning)\b", following, re.IGNORECASE) is not None
