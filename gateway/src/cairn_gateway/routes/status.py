"""`/status` and `/admin/indexes`."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter

from cairn_gateway.dependencies import Gateway, RequireOperator, RequireReader
from cairn_gateway.routes.problems import problems
from cairn_gateway.schemas.operations import IndexesAnswer, PlanView, StatusAnswer

router = APIRouter(tags=["operations"])


@router.get("/status", response_model=StatusAnswer, responses=problems())
async def get_status(state: Gateway, _: RequireReader) -> StatusAnswer:
    """Which parts are up, what the index holds, and what waits to get there."""
    return await state.overview.status()


@router.get("/admin/indexes", response_model=IndexesAnswer, responses=problems())
async def get_indexes(state: Gateway, _: RequireOperator) -> IndexesAnswer:
    """MongoDB's own account of how it runs our queries: which index each of them uses."""
    plans = [PlanView.model_validate(asdict(plan)) for plan in await state.plans.explain()]
    return IndexesAnswer(ok=all(plan.index for plan in plans), plans=plans)
