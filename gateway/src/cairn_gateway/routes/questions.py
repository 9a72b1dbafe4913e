"""`/questions`: what was asked, and what nobody could answer."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query

from cairn_gateway.dependencies import Gateway, RequireEditor, RequireOperator
from cairn_gateway.questions.record import RecordedMode
from cairn_gateway.routes.problems import problems
from cairn_gateway.schemas.questions import Gap, GapList, QuestionPage, QuestionView
from cairn_shared.api.fields import Moment
from cairn_shared.runbooks.model import RUNBOOK_ID_PATTERN

router = APIRouter(prefix="/questions", tags=["questions"])

Id = Annotated[str | None, Query(pattern=RUNBOOK_ID_PATTERN)]


@router.get("", response_model=QuestionPage, responses=problems(422))
async def list_questions(
    state: Gateway,
    _: RequireOperator,
    *,
    mode: Annotated[RecordedMode | None, Query()] = None,
    degraded: Annotated[bool | None, Query()] = None,
    user_id: Id = None,
    runbook_id: Annotated[Id, Query(description="Only those answered from this runbook.")] = None,
    request_id: Annotated[str | None, Query(max_length=64)] = None,
    alert: Annotated[str | None, Query(max_length=500, description="The alert's name, as it was given.")] = None,
    since: Moment | None = None,
    until: Moment | None = None,
    after: Annotated[str | None, Query(max_length=300, description="The last page's `next`.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> QuestionPage:
    """What was asked, newest first, with what people thought of the answers."""
    times = {name: moment for name, moment in (("$gte", since), ("$lt", until)) if moment is not None}
    wanted = {
        "mode": mode,
        "degraded": degraded,
        "user_id": user_id,
        "cited.runbook_id": runbook_id,
        "request_id": request_id,
        "alert": alert,
        "asked_at": times or None,
    }
    found, following = await state.questions.page(wanted, after, limit)
    return QuestionPage(questions=[QuestionView.model_validate(one) for one in found], next=following)


@router.get("/gaps", response_model=GapList, responses=problems(422))
async def list_gaps(
    state: Gateway,
    _: RequireEditor,
    days: Annotated[float, Query(gt=0, le=3650)] = 30.0,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> GapList:
    """What was refused and is asked again and again: the list of runbooks to write."""
    since = state.clock.now() - timedelta(days=days)
    return GapList(gaps=[Gap.model_validate(one) for one in await state.questions.gaps(since, limit)])
