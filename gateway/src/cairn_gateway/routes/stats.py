"""`/stats`: how runbooks are used, what is asked, and what comes in."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query

from cairn_gateway.dependencies import Gateway, RequireEditor, RequireReader
from cairn_gateway.routes.problems import problems
from cairn_gateway.schemas.statistics import CoverageAnswer, QuestionFigures, RunbooksAnswer
from cairn_shared.api.index import IngestCounts, SilentAlerts
from cairn_shared.runbooks.model import RUNBOOK_ID_PATTERN

router = APIRouter(prefix="/stats", tags=["statistics"])

Days = Annotated[float, Query(gt=0, le=3650, description="Of so many days.")]


@router.get("/runbooks", response_model=RunbooksAnswer, responses=problems(422))
async def runbooks(
    state: Gateway,
    _: RequireReader,
    days: Days = 90.0,
    runbook_id: Annotated[str | None, Query(pattern=RUNBOOK_ID_PATTERN)] = None,
) -> RunbooksAnswer:
    """Executions by runbook and step, with how they went."""
    found = await state.statistics.runbooks(state.clock.now() - timedelta(days=days), runbook_id)
    return RunbooksAnswer.model_validate({"runbooks": found})


@router.get("/coverage", response_model=CoverageAnswer, responses=problems(422))
async def coverage(
    state: Gateway,
    _: RequireEditor,
    days: Days = 90.0,
    stale_days: Annotated[float, Query(gt=0, le=36500, description="Not changed for so many days.")] = 365.0,
) -> CoverageAnswer:
    """Runbooks that are never cited, never carried out, stale or empty. What is missing is at `/questions/gaps`."""
    now = state.clock.now()
    found = await state.statistics.coverage(now - timedelta(days=days), now - timedelta(days=stale_days))
    return CoverageAnswer.model_validate(found)


@router.get("/questions", response_model=QuestionFigures, responses=problems(422))
async def questions(state: Gateway, _: RequireEditor, days: Days = 30.0) -> QuestionFigures:
    """Questions by day and mode, and the most asked."""
    return QuestionFigures.model_validate(await state.questions.counts(state.clock.now() - timedelta(days=days)))


@router.get("/alerts", response_model=SilentAlerts, responses=problems(422))
async def alerts(state: Gateway, _: RequireReader, days: Days = 30.0) -> SilentAlerts:
    """Alerts that fired and that no runbook is for."""
    return await state.settlements.silent_alerts(state.clock.now() - timedelta(days=days))


@router.get("/ingest", response_model=IngestCounts, responses=problems(422))
async def ingest(
    state: Gateway, _: RequireReader, hours: Annotated[float, Query(gt=0, le=24 * 90)] = 24.0
) -> IngestCounts:
    """Events by hour, source and how they ended, with the median time from accepted to searchable."""
    return await state.settlements.ingest(state.clock.now() - timedelta(hours=hours))
