"""Numbers with their units, in one spelling: `five minutes`, `5m` and `5 min` are the same."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cairn_answerer.verification.vocabulary import NUMBER_WORDS

_QUANTITY = re.compile(
    r"(?<![\w.])(\d{1,3}(?:[,_]\d{3})+|\d+(?:\.\d+)?)(?![\d])(\s{0,2}-?)(%|[A-Za-zµ]{1,12})?(?![\w])"
)
UNITS = {
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
_WORDS = re.compile(r"\b[a-z]+\b", re.IGNORECASE)
_ONE = re.compile(r"\b(?:an?|one) (?=(?:second|minute|hour|day|week)\b)", re.IGNORECASE)


def without_steps(text: str) -> str:
    """`text` without `step 4`: where to go next is no quantity."""
    return STEP_REFERENCE.sub(" ", text)


def quantities(text: str) -> Iterator[tuple[str, str]]:
    """(number, unit) in one spelling: `5 minutes` and `5m` are (5, min); the unit is empty where it is none we know.

    What is written onto the number counts even if we do not know it: `60k` is not 60.
    """
    spelled = _WORDS.sub(lambda match: NUMBER_WORDS.get(match[0].lower(), match[0]), _ONE.sub("1 ", text))
    for number, gap, unit in _QUANTITY.findall(spelled):
        known = UNITS.get(unit.lower(), "")
        yield number_text(number), known or ("" if gap else unit)


def number_text(text: str) -> str:
    """A number without separators and trailing zeros after the point."""
    text = text.replace(",", "").replace("_", "")
    return text.rstrip("0").rstrip(".") if "." in text else text


def digits(text: str) -> list[str]:
    """All runs of digits."""
    return re.findall(r"\d+(?:\.\d+)?", text)
