"""`/feedback`: whether an answer helped."""

from __future__ import annotations

import uuid
from typing import Annotated

from fastapi import APIRouter, Query

from cairn_gateway.dependencies import Gateway, RequireOperator, RequireReader
from cairn_gateway.named_steps import check_step
from cairn_gateway.routes.guarded import GuardedRoute
from cairn_gateway.routes.problems import problems
from cairn_gateway.schemas.people import FeedbackBody, FeedbackPage, FeedbackView, Verdict
from cairn_shared.errors import InvalidInput
from cairn_shared.redaction import redact
from cairn_shared.runbooks.model import RUNBOOK_ID_PATTERN

router = APIRouter(prefix="/feedback", tags=["feedback"], route_class=GuardedRoute)


@router.post("", response_model=FeedbackView, status_code=201, responses=problems(400, 422))
async def give(body: FeedbackBody, state: Gateway, who: RequireReader) -> FeedbackView:
    """Say that an answer or step was helpful, wrong or outdated.

    A `request_id` is kept as it is given: answers are not kept by their ids, so nobody can say whether there was such
    a one. It leads to the logs of that time.
    """
    if not (body.question or body.answer or body.runbook_id or body.request_id):
        message = "about what? give runbook_id (with step), or the question, answer or request_id"
        raise InvalidInput(message, field="runbook_id")
    if body.runbook_id is not None:
        await check_step(state.store, body.runbook_id, body.step, body.revision)
    given = body.model_dump()
    for name in ("question", "answer", "note"):
        given[name] = redact(given[name]) if given[name] else given[name]
    now = state.clock.now()
    fields = {**given, "user_id": who.user_id, "created_at": now}
    feedback_id = uuid.uuid4().hex
    await state.feedback.put(feedback_id, fields, now)
    return FeedbackView.model_validate({"id": feedback_id, **fields})


@router.get("", response_model=FeedbackPage, responses=problems(422))
async def list_feedback(
    state: Gateway,
    _: RequireOperator,
    runbook_id: Annotated[str | None, Query(pattern=RUNBOOK_ID_PATTERN)] = None,
    verdict: Annotated[Verdict | None, Query()] = None,
    after: Annotated[str | None, Query(max_length=300, description="The last page's `next`.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> FeedbackPage:
    """What was said, newest first."""
    found, following = await state.feedback.page({"runbook_id": runbook_id, "verdict": verdict}, after, limit)
    return FeedbackPage(feedback=[FeedbackView.model_validate(item) for item in found], next=following)
