"""`/executions`: who carried out which step, and whether it worked."""

from __future__ import annotations

import uuid
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi import Path as InPath

from cairn_gateway.dependencies import Gateway, RequireEditor, RequireReader
from cairn_gateway.named_steps import check_past, check_step
from cairn_gateway.routes.guarded import GuardedRoute
from cairn_gateway.routes.problems import problems
from cairn_gateway.schemas.people import ExecutionBody, ExecutionImport, ExecutionPage, ExecutionView, ExecutionWritten
from cairn_shared.runbooks.model import RUNBOOK_ID_PATTERN

router = APIRouter(prefix="/executions", tags=["executions"], route_class=GuardedRoute)

Id = Annotated[str, InPath(pattern=RUNBOOK_ID_PATTERN)]
IdQuery = Annotated[str | None, Query(pattern=RUNBOOK_ID_PATTERN)]


@router.post("", response_model=ExecutionWritten, status_code=201, responses=problems(400, 422))
async def record(body: ExecutionBody, state: Gateway, who: RequireReader) -> ExecutionWritten:
    """Record that the caller carried out a step, now unless `started_at` or `finished_at` says otherwise."""
    now = state.clock.now()
    check_past(now, started_at=body.started_at, finished_at=body.finished_at)
    await check_step(state.store, body.runbook_id, body.step, body.revision)
    started = body.started_at or body.finished_at or now
    fields = {**body.model_dump(), "user_id": who.user_id, "started_at": started}
    return await _put(state, uuid.uuid4().hex, fields)


@router.put(
    "/{execution_id}",
    response_model=ExecutionWritten,
    responses=problems(400, 422) | {201: {"model": ExecutionWritten, "description": "It did not exist before."}},
)
async def put_execution(
    execution_id: Id, body: ExecutionImport, response: Response, state: Gateway, _: RequireEditor
) -> ExecutionWritten:
    """Record somebody's execution under a given id; repeating it changes nothing.

    It may be of a runbook that is not here (yet): records come from elsewhere, and in any order.
    """
    check_past(state.clock.now(), started_at=body.started_at, finished_at=body.finished_at)
    if body.revision is not None and await state.store.find_heads([body.runbook_id]):
        await check_step(state.store, body.runbook_id, body.step, body.revision)
    written = await _put(state, execution_id, body.model_dump())
    response.status_code = 201 if written.status == "created" else 200
    return written


@router.get("", response_model=ExecutionPage, responses=problems(422))
async def list_executions(
    state: Gateway,
    _: RequireReader,
    runbook_id: IdQuery = None,
    user_id: IdQuery = None,
    after: Annotated[str | None, Query(max_length=300, description="The last page's `next`.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> ExecutionPage:
    """Executions of a runbook, of a user or all, newest first."""
    wanted = {"runbook_id": runbook_id, "user_id": user_id}
    found, following = await state.executions.page(wanted, after, limit)
    return ExecutionPage(executions=[ExecutionView.model_validate(item) for item in found], next=following)


async def _put(state: Gateway, execution_id: str, fields: dict[str, object]) -> ExecutionWritten:
    status = await state.executions.put(execution_id, fields, state.clock.now())
    return ExecutionWritten.model_validate({"id": execution_id, **fields, "status": status})
