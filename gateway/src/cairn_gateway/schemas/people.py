"""Bodies of `/users`, `/executions`, `/feedback` and `/audit`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from cairn_gateway.model import Role
from cairn_gateway.schemas.base import Body, Identifier, Name, WriteStatus
from cairn_shared.api.fields import Moment
from cairn_shared.runbooks.model import RunbookId


class UserBody(Body):
    """A user without keys."""

    name: Name
    role: Role = Role.READER
    email: Annotated[str | None, StringConstraints(pattern=r"^[^@\s]{1,100}@[^@\s]{1,150}$")] = None
    team: Name | None = None


class KeyView(BaseModel):
    """What is known of a key."""

    id: str
    label: str
    created_at: datetime


class UserView(BaseModel):
    """A user."""

    id: str
    name: str
    role: Role
    email: str | None
    team: str | None
    keys: list[KeyView] = []


class UserWritten(UserView):
    """A user as stored."""

    status: WriteStatus


class UserList(BaseModel):
    """Everybody."""

    users: list[UserView]


class KeyBody(Body):
    """A name for the key, to tell it from others."""

    label: Annotated[str, StringConstraints(max_length=200)] = ""


class KeyMade(BaseModel):
    """The key, shown this once."""

    user_id: str
    key_id: str
    key: str


Outcome = Literal["worked", "failed", "skipped"]


class ExecutionBody(Body):
    """A step that somebody carried out."""

    runbook_id: RunbookId
    step: Annotated[int, Field(ge=1, le=100_000)]
    outcome: Outcome
    note: Annotated[str, StringConstraints(max_length=10_000)] = ""
    revision: Annotated[int | None, Field(ge=1, lt=2**63)] = None
    incident: Annotated[str | None, StringConstraints(min_length=1, max_length=200)] = None
    started_at: Moment | None = None
    finished_at: Moment | None = None

    @field_validator("finished_at")
    @classmethod
    def _after_its_start(cls, finished: datetime | None, others: ValidationInfo) -> datetime | None:
        started = others.data.get("started_at")
        if finished is not None and started is not None and finished < started:
            raise PydanticCustomError("before_start", "it is before started_at")
        return finished


class ExecutionImport(ExecutionBody):
    """The same with the user who did it, for records from elsewhere."""

    user_id: Identifier
    started_at: Moment


class ExecutionView(BaseModel):
    """A recorded execution."""

    id: str
    runbook_id: str
    step: int
    outcome: Outcome
    user_id: str
    note: str
    revision: int | None = None
    incident: str | None = None
    started_at: datetime
    finished_at: datetime | None = None


class ExecutionWritten(ExecutionView):
    """An execution as stored."""

    status: WriteStatus


class ExecutionPage(BaseModel):
    """Newest first; `next` is the `after` of the following page."""

    executions: list[ExecutionView]
    next: str | None


Verdict = Literal["helpful", "wrong", "outdated"]


class FeedbackBody(Body):
    """What somebody thinks of an answer or a step: one of `question`, `answer`, `runbook_id`, `request_id` names it."""

    verdict: Verdict
    question: Annotated[str | None, StringConstraints(max_length=32_768)] = None
    answer: Annotated[str | None, StringConstraints(max_length=100_000)] = None
    note: Annotated[str, StringConstraints(max_length=10_000)] = ""
    runbook_id: RunbookId | None = None
    step: Annotated[int | None, Field(ge=1, le=100_000)] = None
    revision: Annotated[int | None, Field(ge=1, lt=2**63)] = None
    request_id: Annotated[
        str | None,
        StringConstraints(max_length=64),
        Field(description="Of the answer; kept as given, for nobody can say whether there was one."),
    ] = None

    @field_validator("step", "revision")
    @classmethod
    def _of_a_runbook(cls, number: int | None, others: ValidationInfo) -> int | None:
        if number is not None and "runbook_id" in others.data and others.data["runbook_id"] is None:
            raise PydanticCustomError("of_no_runbook", "of which runbook? give runbook_id")
        return number


class FeedbackView(FeedbackBody):
    """Feedback as recorded."""

    model_config = ConfigDict(extra="ignore")

    id: str
    user_id: str
    created_at: datetime


class FeedbackPage(BaseModel):
    """Newest first; `next` is the `after` of the following page."""

    feedback: list[FeedbackView]
    next: str | None


class AuditLine(BaseModel):
    """Who did what."""

    id: str
    at: datetime
    user_id: str
    key_id: str
    action: str
    target: str
    detail: str
    request_id: str | None


class AuditPage(BaseModel):
    """Newest first; `next` is the `after` of the following page."""

    lines: list[AuditLine]
    next: str | None
