"""Reading what others send: tolerant models, and errors that name the field. What is not needed may be unreadable."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PrivateAttr,
    ValidationError,
    model_validator,
)
from pydantic_core import from_json

from cairn_gateway.sources.errors import Malformed
from cairn_gateway.sources.leaving_out import LeftOut, Needed, dotted, read_what_can_be
from cairn_shared.errors import InvalidInput

_LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F].."
)
_ZONE_APART = re.compile(r"\s+(UTC|Z|[+-]\d\d:?\d\d)$")


def _time(value: Any) -> Any:
    """GitLab writes `2024-05-01 10:00:00 UTC` and `... +0200`, which RFC 3339 does not allow."""
    if isinstance(value, str):
        return _ZONE_APART.sub(lambda zone: "Z" if zone[1] == "UTC" else zone[1], value.strip())
    return value


Time = Annotated[AwareDatetime, BeforeValidator(_time)]
"""A moment with its zone; also a number of seconds or milliseconds since 1970."""


def _without_null(value: Any) -> Any:
    return {name: one for name, one in value.items() if one is not None} if isinstance(value, dict) else value


Texts = Annotated[dict[str, str], BeforeValidator(_without_null)]
"""Labels and the like."""


def _hides(value: Any) -> bool:
    """What is not plainly false hides: what cannot be read must not be shown."""
    if isinstance(value, (dict, list)):
        return bool(value)
    return value not in (None, False, 0, "", "false", "False", "0")


Hidden = Annotated[bool, BeforeValidator(_hides)]
"""Whether only some people may read it."""


class Incoming(BaseModel):
    """Base of payload models: only what is used is described, everything else may come and go.

    Senders write null for what there is none of (the author of a bot's commit, Go's empty maps): it is as if the member
    were not there. What a model requires is what an event is about nothing without.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True)
    _left_out: tuple[LeftOut, ...] = PrivateAttr(())

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What of the payload could not be read and is not needed."""
        return self._left_out

    def having_left_out(self, left_out: Iterable[LeftOut]) -> Self:
        """The same, saying so."""
        self._left_out = tuple(left_out)
        return self

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        return _without_null(data)


ModelT = TypeVar("ModelT", bound=Incoming)


def parse(model: type[ModelT], body: bytes) -> ModelT:
    """The JSON `body` as `model`; its `left_out` says what could not be read.

    Raises:
        Malformed: it is not JSON.
        InvalidInput: a field that is needed is missing or wrong; it is named.
    """
    try:
        return model.model_validate_json(body)
    except ValidationError:
        return parse_value(model, load(body))


def parse_value(model: type[ModelT], data: Any, prefix: str = "") -> ModelT:
    """As `parse`, of a JSON value that was found at `prefix`; `data` is changed."""
    try:
        value, left = read_what_can_be(model, data)
    except Needed as exc:
        where = ".".join(filter(None, (prefix, dotted(exc.place)))) or "body"
        raise InvalidInput(f"{where}: {exc.why}", field=where) from exc
    return value.having_left_out(
        LeftOut((*prefix.split("."), *one.place) if prefix else one.place, one.why) for one in left
    )


def load(body: bytes) -> Any:
    """The value of the JSON `body`.

    Raises:
        Malformed: it is not JSON.
    """
    for candidate in (body, _mend(body)):
        try:
            return from_json(candidate)
        except ValueError:
            continue
    raise Malformed("the body is not valid JSON", field="body")


def counted_as(one: LeftOut) -> str:
    """The place as the name of a metric's series: `*` for numbers, nothing below names that are the sender's own."""
    known: list[str] = []
    for piece in one.place:
        if isinstance(piece, str) and piece not in _names():
            break
        known.append("*" if isinstance(piece, int) else piece)
    return ".".join(known) or "other"


@lru_cache
def _names() -> frozenset[str]:
    """Every member that is described anywhere."""
    names: set[str] = set()
    models: list[type[BaseModel]] = [Incoming]
    while models:
        model = models.pop()
        names |= set(model.model_fields)
        models += model.__subclasses__()
    return frozenset(names)


def _mend(body: bytes) -> bytes:
    """Without the halves of surrogate pairs that JavaScript writes when it cuts a text; JSON readers refuse them."""
    return _LONE_SURROGATE.sub(rb"\\ufffd", body)
