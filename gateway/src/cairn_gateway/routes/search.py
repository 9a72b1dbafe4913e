"""`POST /search`."""

from __future__ import annotations

from fastapi import APIRouter, Response

from cairn_gateway.dependencies import Gateway, RequireReader
from cairn_gateway.routes.guarded import GuardedRoute
from cairn_gateway.routes.plain import as_json
from cairn_gateway.routes.problems import problems
from cairn_shared.api.search import SearchRequest, SearchResponse

router = APIRouter(tags=["questions"], route_class=GuardedRoute)


@router.post("/search", response_model=SearchResponse, responses=problems(400, 413, 422))
async def search(body: SearchRequest, state: Gateway, _: RequireReader) -> Response:
    """The steps and events that fit a query best, with the features that ranked them."""
    return as_json(await state.searcher.search(body))
