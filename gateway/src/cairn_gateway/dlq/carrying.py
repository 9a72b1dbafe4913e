"""Letters as JSON lines, to carry them from one Cairn to another or to keep them; bytes are in base64 (RFC 4648 §4)."""

from __future__ import annotations

import base64
import uuid
from datetime import datetime
from typing import Annotated, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from cairn_gateway.dlq import changes
from cairn_gateway.dlq.model import Failure, Letter
from cairn_gateway.dlq.reading import content_of, fingerprint, letter_id
from cairn_shared.errors import InvalidInput
from cairn_shared.events import TOPICS, first_error
from cairn_shared.kafka.records import Record

FORMAT = 1


class CarriedFailure(BaseModel):
    """As `model.Failure`."""

    model_config = ConfigDict(extra="ignore")

    stage: Annotated[str, Field(max_length=100)]
    kind: Annotated[str, Field(max_length=100)]
    exception: Annotated[str, Field(max_length=500)] = ""
    cause: Annotated[str, Field(max_length=500)] = ""
    message: Annotated[str, Field(max_length=4096)] = ""
    stack: Annotated[str, Field(max_length=64 * 1024)] = ""
    attempts: Annotated[int, Field(ge=1, lt=2**31)] = 1
    first_failed_at: AwareDatetime
    last_failed_at: AwareDatetime
    app_version: Annotated[str, Field(max_length=200)] = ""
    git_sha: Annotated[str, Field(max_length=200)] = ""
    pipeline: Annotated[str, Field(max_length=200)] = ""


class CarriedLetter(BaseModel):
    """One line. What became of the letter here is not carried: elsewhere it is open."""

    model_config = ConfigDict(extra="ignore")

    format: Annotated[int, Field(ge=FORMAT, le=FORMAT)] = FORMAT
    topic: Annotated[str, Field(min_length=1, max_length=300)]
    partition: Annotated[int, Field(ge=0, lt=2**31)]
    offset: Annotated[int, Field(ge=0, lt=2**63)]
    key: str | None
    value: str | None
    headers: Annotated[list[tuple[str, str | None]], Field(max_length=1000)]
    timestamp_ms: int | None = None
    group: Annotated[str, Field(max_length=300)] = ""
    event_id: uuid.UUID | None = None
    event_type: Annotated[str, Field(max_length=100)] = "unknown"
    source: Annotated[str, Field(max_length=200)] | None = None
    subject: Annotated[str, Field(max_length=1000)] | None = None
    part: Annotated[str, Field(max_length=1000)] = ""
    version: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    traceparent: Annotated[str, Field(max_length=1000)] | None = None
    replay_count: Annotated[int, Field(ge=0, lt=2**31)] = 0
    failure: CarriedFailure

    @classmethod
    def of(cls, letter: Letter) -> Self:
        """The line of `letter`."""
        fields = {name: getattr(letter, name) for name in cls.model_fields if hasattr(letter, name)}
        return cls.model_validate(
            fields
            | {
                "key": _text(letter.key),
                "value": _text(letter.value),
                "headers": [(name, _text(value)) for name, value in letter.headers],
                "failure": vars(letter.failure),
            }
        )

    def letter(self, now: datetime) -> Letter:
        """The letter of this line, open.

        Raises:
            InvalidInput: bytes are not in base64, or its topic is none of Cairn's.
        """
        if self.topic not in TOPICS:
            raise InvalidInput(f"topic: {self.topic} is none of Cairn's", field="topic")
        key, value = _bytes("key", self.key), _bytes("value", self.value)
        record = Record(self.topic, self.partition, self.offset, key, value)
        failure = Failure(**self.failure.model_dump())
        fields = self.model_dump(exclude={"format", "key", "value", "headers", "failure"})
        return changes.discovered(
            Letter(
                **fields,
                id=letter_id(self.topic, self.partition, self.offset, self.event_id, content_of(record, key)),
                key=key,
                value=value,
                headers=tuple((name, _bytes("headers", content)) for name, content in self.headers),
                size=record.size,
                value_kept=True,
                fingerprint=fingerprint(failure),
                failure=failure,
                indexed_at=now,
            )
        )


def parsed(line: bytes, now: datetime) -> Letter:
    """The letter of one line.

    Raises:
        InvalidInput: it is no letter; the detail says which member is wrong.
    """
    try:
        return CarriedLetter.model_validate_json(line).letter(now)
    except ValidationError as exc:
        raise InvalidInput(first_error(exc)) from exc


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()


def _bytes(name: str, text: str | None) -> bytes | None:
    try:
        return None if text is None else base64.b64decode(text, validate=True)
    except ValueError as exc:
        raise InvalidInput(f"{name}: not base64", field=name) from exc
