"""What `/dlq` is asked."""

from __future__ import annotations

import base64
import uuid
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from cairn_gateway.dlq.model import Choice, LetterState
from cairn_gateway.schemas.base import Body
from cairn_shared.api.fields import Moment

MAX_IDS = 1000
MAX_LETTERS = 100_000
Text = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Reason = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)]
Note = Annotated[str, StringConstraints(strip_whitespace=True, max_length=1000)]


class LetterFilter(Body):
    """Which letters: every given field must hold."""

    state: LetterState | None = None
    topic: Text | None = None
    stage: Text | None = None
    kind: Text | None = None
    exception: Text | None = None
    source: Text | None = None
    event_type: Text | None = None
    fingerprint: Text | None = None
    event_id: uuid.UUID | None = None
    job: Text | None = None
    since: Moment | None = None
    until: Moment | None = None

    def choice(self) -> Choice:
        """The same for the store."""
        return Choice(**{name: getattr(self, name) for name in LetterFilter.model_fields})


class LetterQuery(LetterFilter):
    """A page of a list."""

    after: Annotated[str | None, Field(max_length=300, description="The last page's `next`.")] = None
    limit: Annotated[int, Field(ge=1, le=500)] = 100


class GroupQuery(LetterFilter):
    """Groups."""

    limit: Annotated[int, Field(ge=1, le=500)] = 100


class ExportQuery(LetterFilter):
    """An export."""

    limit: Annotated[int, Field(ge=1, le=MAX_LETTERS)] = MAX_LETTERS


class Selection(Body):
    """Letters by `ids`, by `filter`, or `all` of the open ones; never all of them by leaving everything out."""

    ids: Annotated[list[uuid.UUID], Field(min_length=1, max_length=MAX_IDS)] | None = None
    filter: LetterFilter | None = None
    all: bool = False
    limit: Annotated[int, Field(ge=1, le=MAX_LETTERS, description="At most so many, the longest dead first.")] = (
        MAX_LETTERS
    )

    @model_validator(mode="after")
    def _says_which(self) -> Self:
        filtered = self.filter is not None and self.filter.model_dump(exclude_none=True)
        if not (self.ids or filtered or self.all):
            raise PydanticCustomError("which", "which letters? give ids, a filter, or all: true")
        return self

    def choice(self) -> Choice:
        """The same for the store."""
        chosen = self.filter.choice() if self.filter else Choice()
        return Choice(**{**vars(chosen), "ids": tuple(self.ids) if self.ids else None})


class ReplayBody(Selection):
    """A replay of open letters, `rate` of them a second."""

    rate: Annotated[float, Field(gt=0, le=1000, description="Letters a second.")] = 20.0
    force: Annotated[bool, Field(description="Also those that came back from three replays.")] = False
    note: Note = ""


class DiscardBody(Selection):
    """Letters that are to be left, and why."""

    reason: Reason


class DryRunBody(Selection):
    """Letters to try; nothing is changed."""

    limit: Annotated[int, Field(ge=1, le=1000, description="At most so many, the longest dead first.")] = 100


class EditBody(Body):
    """The mended event: as text in `value`, or in base64. With `dry_run` it is only tried."""

    value: Annotated[str, StringConstraints(max_length=16 * 1024 * 1024)] | None = None
    value_base64: Annotated[str, StringConstraints(max_length=16 * 1024 * 1024)] | None = None
    reason: Note = ""
    dry_run: bool = False

    @model_validator(mode="after")
    def _one_value(self) -> Self:
        if (self.value is None) == (self.value_base64 is None):
            raise PydanticCustomError("one_value", "give value or value_base64, one of them")
        return self


class ReasonBody(Body):
    """Why."""

    reason: Reason


class ReleaseHaltBody(Body):
    """A halted partition to go on with."""

    topic: Text
    partition: Annotated[int, Field(ge=0, le=100_000)]


def base64_bytes(text: str) -> bytes:
    """Raises ValueError: it is no base64 (RFC 4648 §4)."""
    return base64.b64decode(text, validate=True)
