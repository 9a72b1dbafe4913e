"""`POST /verify`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta

from fastapi import APIRouter

from cairn_gateway.dependencies import Gateway, RequireOperator
from cairn_gateway.routes.guarded import GuardedRoute
from cairn_gateway.routes.problems import problems
from cairn_gateway.schemas.operations import DifferenceView, VerifyAnswer, VerifyBody

router = APIRouter(tags=["operations"], route_class=GuardedRoute)


@router.post("/verify", response_model=VerifyAnswer, responses=problems(400, 422))
async def verify(body: VerifyBody, state: Gateway, _: RequireOperator) -> VerifyAnswer:
    """Compare every runbook in MongoDB with the index; with `repair`, publish differences again.

    Identifiers and lexemes are made again from the texts: half a second for a MB. With `vectors`, every stored text is
    embedded again, which takes as long as to index it.
    """
    grace = None if body.grace_seconds is None else timedelta(seconds=body.grace_seconds)
    found = await state.reconciler.verify(repair=body.repair, words=True, vectors=body.vectors, grace=grace)
    kinds = found.differences.by_kind()
    return VerifyAnswer(
        ok=not any(kinds.values()),
        checked=found.checked,
        tombstones=found.tombstones,
        indexed=found.indexed,
        counts={kind: len(items) for kind, items in kinds.items()},
        differences={
            kind: [DifferenceView.model_validate(asdict(item)) for item in items] for kind, items in kinds.items()
        },
        pending=list(found.pending),
        repaired=list(found.repaired),
    )
