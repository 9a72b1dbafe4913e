"""A model's output to a plan: JSON as it was asked for, JSON in disguise, or any text that names steps by their ids.

`PlanReader` reads while the model writes and hands out each item as soon as its object is complete. Both it and
`parse` take time linear in the text. Nothing here decides whether an id exists.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from cairn_answerer.cleaning import folded, visible
from cairn_answerer.errors import BadOutput
from cairn_answerer.model import Pick, Plan
from cairn_shared.api.ask import REFUSAL

MAX_OUTPUT = 48_000
"""Characters of output that are read; a model that writes more has lost its way."""

MAX_ITEMS = 30
MAX_UNITS = 400
MAX_OBJECT = 6_000
_STEP_KEYS = ("step", "id", "excerpt", "cite", "cites")
_UNIT_KEYS = ("units", "unit", "numbers", "lines")
_ANSWERABLE = re.compile(r'"answerable"\s*:\s*(true|false)')
_ANY_ANSWERABLE = re.compile(r'"answerable"\s*:')
_LEAD = re.compile(r'"lead"\s*:\s*("(?:[^"\\]|\\.){0,1000}")')
_ITEMS = re.compile(r'"items"\s*:\s*\[')
_NO_ITEMS = re.compile(r'"items"\s*:\s*\[\s*\]')
_STRUCTURE = re.compile(r'[{}"]|\\.')
_NUMBERS = re.compile(r"(\d{1,4})(?:\s{0,2}[-–]\s{0,2}(\d{1,4}))?")
_REFUSAL = folded(REFUSAL)


class PlanReader:
    """Finds complete items in text that arrives in pieces."""

    def __init__(self) -> None:
        self._text = ""
        self._position = 0
        self._open: list[int] = []
        self._in_string = False
        self.answerable: bool | None = None
        self.lead = ""
        self.picks: list[Pick] = []

    @property
    def unfinished(self) -> bool:
        """The JSON breaks off."""
        return bool(self._open)

    def feed(self, piece: str) -> list[Pick]:
        """The items that `piece` completes."""
        self._text += piece
        before = len(self.picks)
        for mark in _STRUCTURE.finditer(self._text, self._position):
            symbol = mark[0]
            if len(symbol) == 2:
                pass  # an escaped character
            elif symbol == '"':
                # Quotes in prose before the JSON mean nothing.
                self._in_string = not self._in_string and bool(self._open)
            elif not self._in_string:
                self._brace(symbol, mark.start())
            self._position = mark.end()
        # A backslash at the very end waits for its other half.
        tail = self._text[self._position :]
        self._position = len(self._text) - (1 if tail.endswith("\\") else 0)
        if self.answerable is None:
            self._read_head()
        return self.picks[before:]

    def _read_head(self) -> None:
        """What stands before the items: whether there is an answer, and the words at its top."""
        head = self._text[: 2 * MAX_OBJECT]
        if match := _ANSWERABLE.search(head):
            self.answerable = match[1] == "true"

    def _brace(self, symbol: str, place: int) -> None:
        if symbol == "{":
            self._open.append(place)
            if len(self._open) == 2 and not self.picks and not self.lead:
                # The first item begins: the words at the top stand before it or not at all.
                self._read_head()
                if match := _LEAD.search(self._text[self._open[0] : place]):
                    self.lead = _words(json.loads(match[1], strict=False))
        elif self._open:
            start = self._open.pop()
            if place - start <= MAX_OBJECT and len(self.picks) < MAX_ITEMS:
                self.picks.extend(_picks(_loads(self._text[start : place + 1])))


def parse(text: str, keys: Collection[str]) -> Plan:
    """The plan of a finished output; `keys` are the ids that were shown.

    Raises:
        BadOutput: nothing in it chooses a step, and it is no refusal.
    """
    text = visible(text[:MAX_OUTPUT])
    reader = PlanReader()
    reader.feed(text)
    if reader.picks or reader.answerable is False:
        return Plan(reader.answerable, tuple(reader.picks), reader.lead)
    if _REFUSAL in folded(text[:2000]):
        return Plan(answerable=False, picks=())
    # Only a list that is there and empty says that there is nothing to say; all else is a model that failed, and the
    # engineer is better served with the steps than with a refusal.
    undecided = reader.answerable is None and _ANY_ANSWERABLE.search(text)
    if not reader.unfinished and not undecided and _NO_ITEMS.search(text):
        return Plan(answerable=False, picks=())
    picks = tuple(_named(text, keys))
    if not picks:
        raise BadOutput
    return Plan(answerable=None, picks=picks)


def _loads(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _picks(value: Any) -> Iterator[Pick]:
    """The items in one object: it is one when it names a step."""
    if not isinstance(value, dict):
        return
    named: Any = next((value[key] for key in _STEP_KEYS if key in value), None)
    lead = value.get("lead")
    units: Any = next((value[key] for key in _UNIT_KEYS if key in value), None)
    for step in named if isinstance(named, list) else [named]:
        if isinstance(step, str | int) and not isinstance(step, bool) and str(step).strip():
            yield Pick(step=_id(str(step)), units=_units(units), lead=_words(lead))
            lead = None


def _id(text: str) -> str:
    return visible(text).strip().strip("[]【】<>`\"' ").removeprefix("id=").strip("\"'").lower()[:100]


def _words(value: Any) -> str:
    return visible(value).strip() if isinstance(value, str) else ""


def _units(value: Any) -> tuple[int, ...] | None:
    """Numbers, also as text (`"2"`, `"2-4"`, `"k7mq.2"`); None, all of them, where none are given."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None or (isinstance(value, str) and value.strip().casefold() in ("", "all", "*")):
        return None
    found: dict[int, None] = {}
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, int) and not isinstance(item, bool):
            found[item] = None
        elif isinstance(item, str):
            for first, last in _NUMBERS.findall(item.rpartition(".")[2][:100]):
                found.update(dict.fromkeys(range(int(first), min(int(last or first), int(first) + MAX_UNITS) + 1)))
        if len(found) >= MAX_UNITS:
            break
    return tuple(found)[:MAX_UNITS]


_LIST = re.compile(r"\s{0,2}[\[:#./(]{1,2}\s{0,2}((?:\d{1,4}(?:\s{0,2}[-–]\s{0,2}\d{1,4})?[,;\s]{0,3}){1,60})")


def _named(text: str, keys: Collection[str]) -> Iterator[Pick]:
    """Text that is no JSON: each id in it chooses, with the numbers right behind it (`k7mq: 1, 3-4`) or as a whole."""
    if not keys:
        return
    ids = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, sorted(keys)))})(?![A-Za-z0-9])", re.IGNORECASE)
    for count, match in enumerate(ids.finditer(text)):
        if count == MAX_ITEMS:
            return
        numbers = _LIST.match(text, match.end())
        yield Pick(step=match[0].lower(), units=_units(numbers[1]) if numbers else None)
