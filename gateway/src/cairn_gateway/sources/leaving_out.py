"""Reading a payload whose writer was careless: what an event is about must be there, all else may be left out.

A model says what matters by what it requires. What cannot be read and is not required is as if it were not there; of a
list only the item goes; an object without what it requires goes as a whole. Nothing is put in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

ModelT = TypeVar("ModelT", bound=BaseModel)
Place = tuple[str | int, ...]

_ROUNDS = 20
"""More than a payload's levels: each round that takes something away goes one level up at most."""


@dataclass(frozen=True)
class LeftOut:
    """Something that could not be read: where it was, and what is wrong with it, without its value."""

    place: Place
    why: str

    def __str__(self) -> str:
        return f"{dotted(self.place)}: {self.why}"


class Needed(Exception):
    """Without this the event is about nothing; `place` and `why` as in `LeftOut`."""

    def __init__(self, place: Place, why: str) -> None:
        super().__init__(f"{dotted(place)}: {why}")
        self.place, self.why = place, why


@dataclass(frozen=True)
class _Fault:
    """What pydantic says: `at` is where it looked, `place` what would have to go."""

    at: Place
    place: Place
    why: str


def dotted(place: Place) -> str:
    """A place as people write it."""
    return ".".join(str(piece) for piece in place)


def read_what_can_be(model: type[ModelT], data: Any) -> tuple[ModelT, list[LeftOut]]:
    """`data`, which is changed, as `model`, and what was left out of it.

    Raises:
        Needed: what is wrong or missing cannot be left out.
    """
    left: dict[Place, LeftOut] = {}
    seen: list[_Fault] = []
    for _ in range(_ROUNDS):
        try:
            return model.model_validate(data), list(left.values())
        except ValidationError as exc:
            faults = [_fault(data, error) for error in exc.errors(include_input=False, include_url=False)]
        seen += faults
        needed = next((fault for fault in faults if not fault.place), None)
        if needed is not None:
            raise _needed(needed, seen)
        for fault in faults:
            # Where an object goes for want of something, that is what is told.
            left.setdefault(
                fault.place,
                LeftOut(fault.at if fault.at[: len(fault.place)] == fault.place else fault.place, fault.why),
            )
        _take_away(data, {fault.place for fault in faults})
    raise _needed(seen[0], seen)


def _needed(fault: _Fault, seen: Iterable[_Fault]) -> Needed:
    """Names what was wrong in the beginning: a field that is missing now may have been taken away as unreadable."""
    first = next(one for one in seen if one.at[: len(fault.at)] == fault.at)
    return Needed(first.at, first.why)


def _fault(data: Any, error: Mapping[str, Any]) -> _Fault:
    """Of a wrong value the value goes; where one is missing, the object that needs it."""
    at: Place = error["loc"]
    place: list[str | int] = []
    for piece in at[:-1] if error["type"] == "missing" else at:
        inside = piece in data if isinstance(data, dict) else isinstance(data, list) and piece in range(len(data))
        if not inside:  # missing, or the name of a branch of a union
            break
        data = data[piece]
        place.append(piece)
    return _Fault(at, tuple(place), str(error["msg"]))


def _take_away(data: Any, places: set[Place]) -> None:
    """Deepest and last first, so that the others stay where they are; a list that loses all it had goes too."""
    emptied: set[Place] = set()
    for place in sorted(places, key=_deepest_and_last, reverse=True):
        parent = data
        for piece in place[:-1]:
            parent = parent[piece]
        del parent[place[-1]]
        if parent == [] and len(place) > 1:
            emptied.add(place[:-1])
    if emptied:
        _take_away(data, emptied)


def _deepest_and_last(place: Place) -> tuple[int, list[tuple[bool, int, str]]]:
    return len(place), [(isinstance(piece, int), piece if isinstance(piece, int) else 0, str(piece)) for piece in place]
