"""Reading what others send: tolerant models, and errors that name the field."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from cairn_gateway.sources.errors import Malformed
from cairn_shared.errors import InvalidInput
from cairn_shared.events import first_error

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


class Incoming(BaseModel):
    """Base of payload models: only what is used is described, everything else may come and go.

    Senders write null for what there is none of (the author of a bot's commit, Go's empty maps): it is as if the member
    were not there.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        return _without_null(data)


ModelT = TypeVar("ModelT", bound=BaseModel)


def parse(model: type[ModelT], body: bytes) -> ModelT:
    """The JSON `body` as `model`.

    Raises:
        Malformed: it is not JSON.
        InvalidInput: a field is missing or wrong; it is named.
    """
    try:
        return model.model_validate_json(body)
    except ValidationError as exc:
        mended = _mend(body) if _is_not_json(exc) else body
        if mended == body:
            raise invalid(exc) from exc
    try:
        return model.model_validate_json(mended)
    except ValidationError as exc:
        raise invalid(exc) from exc


def _is_not_json(exc: ValidationError) -> bool:
    return any(error["type"] == "json_invalid" for error in exc.errors(include_input=False, include_url=False))


def _mend(body: bytes) -> bytes:
    """Without the halves of surrogate pairs that JavaScript writes when it cuts a text; JSON readers refuse them."""
    return _LONE_SURROGATE.sub(rb"\\ufffd", body)


def invalid(exc: ValidationError, prefix: str = "") -> InvalidInput:
    """A validation error as ours, without the offending value."""
    error = exc.errors(include_input=False, include_url=False)[0]
    if error["type"] == "json_invalid":
        return Malformed("the body is not valid JSON", field="body")
    where = ".".join(str(part) for part in (prefix, *error["loc"]) if part != "") or "body"
    return InvalidInput(f"{prefix}.{first_error(exc)}" if prefix else first_error(exc), field=where)
