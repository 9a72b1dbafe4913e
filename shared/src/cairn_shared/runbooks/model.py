"""What a runbook is, wherever it is stored or sent."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

RUNBOOK_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"
"""Ids are one URL path segment: letters, digits, `.`, `_` and `-`, at most 200."""

MAX_MARKDOWN_BYTES = 1024 * 1024
"""Largest Markdown source of one runbook, in UTF-8 bytes."""

RunbookId = Annotated[str, StringConstraints(pattern=RUNBOOK_ID_PATTERN)]
StepKind = Literal["ordered", "heading", "checklist", "section"]


class Step(BaseModel):
    """The unit that is cited and shown: one instruction with everything that belongs to it."""

    model_config = ConfigDict(frozen=True)

    number: Annotated[int, Field(ge=1, description="Position in the document, 1..N.")]
    label: Annotated[str, Field(description="The author's own label (`3`, `3b`), or the number.")]
    section: Annotated[str, Field(description="Headings above it, joined by ` > `; empty at the top.")] = ""
    kind: StepKind = "ordered"
    body: Annotated[str, Field(description="Markdown; fences and tables whole.")]
    line_start: Annotated[int, Field(ge=1, description="First line in the source file, from 1.")] = 1
    line_end: Annotated[int, Field(ge=1)] = 1


class Runbook(BaseModel):
    """A runbook as its author wrote it, divided into steps."""

    model_config = ConfigDict(frozen=True)

    id: RunbookId
    title: Annotated[str, Field(min_length=1, max_length=500)]
    service: str | None = None
    severity: str | None = None
    owner: str | None = None
    tags: list[str] = []
    alerts: Annotated[list[str], Field(description="Alert names that lead here, first of all from front matter.")] = []
    links: Annotated[list[str], Field(description="`runbook_url`s and the like under which it is known.")] = []
    source: Annotated[str, Field(description="`api`, or `repo:NAME`.")] = "api"
    path: Annotated[str | None, Field(description="Path in its repository or import folder.")] = None
    commit: str | None = None
    blob: str | None = None
    url: Annotated[str | None, Field(description="Where a person can read it.")] = None
    steps: list[Step] = []

    def content_sha(self) -> str:
        """Hex SHA-256 of everything that changes what is indexed or shown (commit and blob do not)."""
        content = self.model_dump(mode="json", exclude={"commit", "blob"})
        return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()
