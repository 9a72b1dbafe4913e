"""What the bodies share: bounds of their fields, and the form of every error."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from cairn_shared.runbooks.model import RUNBOOK_ID_PATTERN

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Line = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Url = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
Path = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Identifier = Annotated[str, StringConstraints(pattern=RUNBOOK_ID_PATTERN)]
WriteStatus = Literal["created", "changed", "unchanged"]


class Body(BaseModel):
    """Base of request bodies: unknown fields are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Problem(BaseModel):
    """RFC 9457 problem details; every error looks like this."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    field: Annotated[str | None, Field(description="What is wrong in the request.")] = None
    dependency: Annotated[str | None, Field(description="What is away.")] = None
    request_id: str | None = None
