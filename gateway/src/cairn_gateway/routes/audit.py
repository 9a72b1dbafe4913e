"""`/audit`: who did what."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from cairn_gateway.dependencies import Gateway, RequireOperator
from cairn_gateway.routes.problems import problems
from cairn_gateway.schemas.people import AuditLine, AuditPage

router = APIRouter(prefix="/audit", tags=["operations"])

Wanted = Annotated[str | None, Query(min_length=1, max_length=300)]


@router.get("", response_model=AuditPage, responses=problems(422))
async def list_audit(
    state: Gateway,
    _: RequireOperator,
    *,
    user: Wanted = None,
    action: Wanted = None,
    target: Wanted = None,
    after: Annotated[str | None, Query(max_length=300, description="The last page's `next`.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> AuditPage:
    """What operators and admins did, newest first."""
    wanted = {"user_id": user, "action": action, "target": target}
    found, following = await state.audit.page(wanted, after, limit)
    return AuditPage(lines=[AuditLine.model_validate(line) for line in found], next=following)
