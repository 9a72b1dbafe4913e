"""What an ingest consumer tells and does for the dead letter workbench, on the port of its health page.

`POST /dry-run`, `GET /halts`, `POST /halts/release`.
"""

from __future__ import annotations

import uuid
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

MAX_RECORDS = 50
"""Records of one dry run."""

MAX_DRY_RUN_BYTES = 24 * 1024 * 1024
"""Bytes of a dry run's body: a record of 12 MiB, in base64, and room."""

Verdict = Literal["searchable", "unchanged", "superseded", "deleted", "handled"]


class DryRunRecord(BaseModel):
    """A record as it would be consumed; None and empty differ."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    id: uuid.UUID
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] = []


class DryRunQuery(BaseModel):
    """Records to try."""

    records: Annotated[list[DryRunRecord], Field(max_length=MAX_RECORDS)]


class DryRunResult(BaseModel):
    """What the consumer of today would make of a record. Nothing was written.

    `ok` with what would become of it, or the `stage` at which it fails and why.
    """

    id: uuid.UUID
    ok: bool
    verdict: Annotated[
        Verdict | None,
        Field(
            description="searchable: it would be written. unchanged: the index has this very version. superseded: the "
            "index has a newer one. deleted: a document would go. handled: it is no document; only its form was tried."
        ),
    ] = None
    stage: str | None = None
    exception: str | None = None
    reason: str | None = None
    event_id: uuid.UUID | None = None
    event_type: str | None = None
    title: str | None = None
    steps: int = 0
    chunks: int = 0
    version: int | None = None
    indexed_version: Annotated[int | None, Field(description="Of the same part of the document, now.")] = None


class DryRunAnswer(BaseModel):
    """Results in the order of the records, and which code gave them."""

    app_version: str
    pipeline: str
    git_sha: str | None
    results: list[DryRunResult]


class Halt(BaseModel):
    """A partition on which consumption stopped because too much of it failed for good."""

    topic: str
    partition: int
    reason: str
    halted_at: AwareDatetime
    released_at: AwareDatetime | None = None
    released_by: str | None = None


class HaltsAnswer(BaseModel):
    """Every partition that is halted now, of the whole consumer group."""

    halts: list[Halt]


class ReleaseBody(BaseModel):
    """Go on with a partition; `by` is kept."""

    topic: str
    partition: int
    by: str


class ReleaseAnswer(BaseModel):
    """`released` is false where that partition is not halted."""

    released: bool
