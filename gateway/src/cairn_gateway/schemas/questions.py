"""Bodies of `/questions`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

from cairn_gateway.questions.record import RecordedMode
from cairn_gateway.schemas.people import Verdict


class StepShown(BaseModel):
    """A step that was found for a question."""

    runbook_id: str
    kind: str
    title: str
    step: int
    score: float


class PageNear(BaseModel):
    """A runbook that was near, and judged not to answer."""

    runbook_id: str
    title: str


class Said(BaseModel):
    """What somebody thought of the answer."""

    verdict: Verdict
    note: str
    user_id: str
    created_at: datetime


class QuestionView(BaseModel):
    """A question, and how it was answered. Secrets are redacted."""

    id: str
    asked_at: datetime
    user_id: str | None
    key_id: str | None
    via: Annotated[str | None, Field(description="The route that was called.")]
    question: str
    alert: str | None
    follow_up: bool
    stream: bool
    mode: RecordedMode
    degraded: bool
    degraded_reason: str | None
    cited: list[StepShown]
    shown: Annotated[list[StepShown], Field(description="The best steps that the answer does not rest on.")]
    nearest: list[PageNear]
    timings: dict[str, float]
    seconds: Annotated[float, Field(description="From the gateway's question to the end of the answer.")]
    request_id: str | None
    trace_id: str | None
    feedback: list[Said]


class QuestionPage(BaseModel):
    """Newest first; `next` is the `after` of the following page."""

    questions: list[QuestionView]
    next: str | None


class Gap(BaseModel):
    """Questions that say the same and were refused."""

    question: Annotated[str, Field(description="As it was asked last.")]
    count: int
    users: int
    alert: str | None
    nearest: list[PageNear]
    first_asked_at: datetime
    last_asked_at: datetime


class GapList(BaseModel):
    """The most asked first: the list of runbooks to write."""

    gaps: list[Gap]
