"""The text of cited steps in the forms that checks compare with: literally, as numbers with units, as clauses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cairn_answerer.cleaning import folded, squeezed
from cairn_answerer.injection import WITHHELD
from cairn_answerer.language import NUMBER_WORDS, Clause, clauses, content_stems, spoken
from cairn_answerer.model import Shown
from cairn_answerer.placeholders import fill
from cairn_shared.identifiers import identifiers


@dataclass(frozen=True)
class Evidence:
    """The text of the cited steps in the forms that the checks compare with."""

    raw: str
    squeezed: str
    folded: str
    clauses: tuple[Clause, ...]
    numbers: frozenset[str]
    quantities: frozenset[tuple[str, str]]
    identifiers: frozenset[str]
    stems: frozenset[str]
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
        return cls(
            raw=raw,
            squeezed=squeezed(raw),
            folded=folded(about),
            clauses=tuple(clauses(spoken("\n\n".join(texts)))),
            numbers=frozenset(number for number, _ in amounts) | frozenset(digits(measured)),
            quantities=amounts,
            identifiers=frozenset(identifiers(about)),
            stems=frozenset(content_stems(about)),
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


_QUANTITY = re.compile(r"(?<![\w.])(\d{1,3}(?:[,_]\d{3})+|\d+(?:\.\d+)?)(?![\d])\s{0,2}-?(%|[A-Za-zµ]{1,12})?(?![\w])")
_UNITS = {
    unit: name
    for name, spellings in {
        "ms": "ms millisecond milliseconds msec",
        "s": "s sec secs second seconds",
        "min": "m min mins minute minutes",
        "h": "h hr hrs hour hours",
        "d": "d day days",
        "week": "w week weeks",
        "%": "% percent pct",
        "KB": "kb kib ki kilobyte kilobytes",
        "MB": "mb mib mi megabyte megabytes",
        "GB": "gb gib gi gigabyte gigabytes",
        "TB": "tb tib ti terabyte terabytes",
        "B": "byte bytes",
    }.items()
    for unit in spellings.split()
}
STEP_REFERENCE = re.compile(r"\bsteps?\s+\d{1,3}(?:\s*(?:-|–|to|and|,)\s*\d{1,3})*", re.IGNORECASE)


def without_steps(text: str) -> str:
    """`text` without `step 4`: where to go next is no quantity."""
    return STEP_REFERENCE.sub(" ", text)


def quantities(text: str) -> Iterator[tuple[str, str]]:
    """(number, unit) in one spelling: `5 minutes` and `5m` are (5, min); the unit is empty where it is none we know."""
    spelled = re.sub(r"\b[a-z]+\b", lambda match: NUMBER_WORDS.get(match[0], match[0]), text, flags=re.IGNORECASE)
    for number, unit in _QUANTITY.findall(spelled):
        yield _number(number), _UNITS.get(unit.lower(), "")


def _number(text: str) -> str:
    text = text.replace(",", "").replace("_", "")
    return text.rstrip("0").rstrip(".") if "." in text else text


def digits(text: str) -> list[str]:
    return re.findall(r"\d+(?:\.\d+)?", text)
