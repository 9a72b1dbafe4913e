"""Bodies of `/stats`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field


class StepFigures(BaseModel):
    """How a step went."""

    step: int
    executions: int
    worked: int
    failed: int
    skipped: int
    last_used: datetime


class RunbookFigures(BaseModel):
    """How a runbook is used. `success_rate` is worked / (worked + failed); null where neither was."""

    runbook_id: str
    title: Annotated[str | None, Field(description="Null where there is no such runbook (any more).")]
    executions: int
    worked: int
    failed: int
    skipped: int
    success_rate: float | None
    last_used: datetime
    cited: Annotated[int, Field(description="Questions answered from it, as far as the question log goes back.")]
    steps: list[StepFigures]


class RunbooksAnswer(BaseModel):
    """The most used first."""

    runbooks: list[RunbookFigures]


class NamedRunbook(BaseModel):
    """A runbook."""

    runbook_id: str
    title: str
    updated_at: datetime


class CoverageAnswer(BaseModel):
    """What an owner of runbooks should look at."""

    runbooks: int
    never_cited: list[NamedRunbook]
    never_used: list[NamedRunbook]
    stale: list[NamedRunbook]
    empty: list[NamedRunbook]


class DayOfQuestions(BaseModel):
    """Questions of a day that were answered so."""

    day: str
    mode: str
    count: int


class MostAsked(BaseModel):
    """A question as it was asked last, with those that say the same."""

    question: str
    count: int


class QuestionFigures(BaseModel):
    """Questions by day and mode, and the most asked."""

    days: list[DayOfQuestions]
    most_asked: list[MostAsked]
