"""What the MCP tools ask, asked of a gateway over HTTP. A call that is given up is given up there as well."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from cairn_gateway.cli.client import connection, raise_for, timeouts, unreachable
from cairn_gateway.cli.exits import CliError, Negative, NotAllowed, Rejected
from cairn_gateway.cli.options import segment
from cairn_gateway.cli.target import Target
from cairn_gateway.schemas.runbooks import RunbookView
from cairn_shared.api.ask import AskRequest, AskResponse
from cairn_shared.api.search import SearchRequest, SearchResponse
from cairn_shared.errors import CairnError, Forbidden, InvalidInput, NotFound, Unavailable

ASK_TIMEOUT = 120.0
TIMEOUT = 30.0
ModelT = TypeVar("ModelT", bound=BaseModel)


class FarKnowledge:
    """`cairn_gateway.mcp_server.knowledge.Knowledge` of the gateway at `target`."""

    def __init__(self, target: Target, client: httpx.AsyncClient) -> None:
        self._target = target
        self._client = client

    async def ask(self, request: AskRequest) -> AskResponse:
        return await self._call("POST", "/ask", AskResponse, body=request, timeout=ASK_TIMEOUT)

    async def search(self, request: SearchRequest) -> SearchResponse:
        return await self._call("POST", "/search", SearchResponse, body=request)

    async def get_runbook(self, runbook_id: str) -> RunbookView:
        return await self._call("GET", f"/runbooks/{segment(runbook_id)}", RunbookView)

    async def _call(
        self,
        method: str,
        path: str,
        answer: type[ModelT],
        *,
        body: BaseModel | None = None,
        timeout: float = TIMEOUT,
    ) -> ModelT:
        content = body.model_dump(mode="json") if body is not None else None
        try:
            response = await self._client.request(method, path, json=content, timeout=timeouts(timeout))
        except httpx.HTTPError as exc:
            raise _told(unreachable(exc, self._target, timeout)) from exc
        try:
            raise_for(response, self._target)
        except CliError as exc:
            raise _told(exc) from exc
        try:
            return answer.model_validate_json(response.content)
        except ValidationError as exc:
            raise Unavailable("gateway", f"{self._target.url} gave an answer that is not this Cairn's") from exc


@asynccontextmanager
async def open_knowledge(target: Target) -> AsyncIterator[FarKnowledge]:
    """Connections to the gateway at `target`, made when they are needed."""
    async with httpx.AsyncClient(**connection(target)) as client:
        yield FarKnowledge(target, client)


def _told(error: CliError) -> CairnError:
    """An error of the command line as one that a tool's caller is told."""
    detail = f"{error.message} ({error.hint})" if error.hint else error.message
    match error:
        case Negative():
            return NotFound(detail)
        case Rejected():
            return InvalidInput(detail, field=error.field)
        case NotAllowed():
            return Forbidden(detail)
        case _:
            return Unavailable("gateway", detail)
