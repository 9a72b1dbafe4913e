"""`POST /mcp`: the tools for MCP clients."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Response
from starlette.types import Receive, Scope, Send

from cairn_gateway.dependencies import Gateway, RequireReader
from cairn_gateway.mcp_server.endpoint import ToolEndpoint
from cairn_gateway.routes.problems import problems
from cairn_gateway.routes.raw import takes
from cairn_shared.errors import Forbidden

router = APIRouter(tags=["mcp"])


class _Handled(Response):
    """The answer that the endpoint gives by itself, once the caller is known."""

    def __init__(self, endpoint: ToolEndpoint) -> None:
        super().__init__()
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._endpoint(scope, receive, send)


@router.post("/mcp", responses=problems(400, 413), openapi_extra=takes("application/json"))
async def call_mcp(
    state: Gateway,
    _: RequireReader,
    origin: Annotated[str | None, Header(description="Of a web page; it must be in MCP_ALLOWED_ORIGINS.")] = None,
) -> Response:
    """Model Context Protocol over streamable HTTP, without sessions: the tools `ask`, `search` and `get_runbook`."""
    if not state.tools.allows(origin):
        raise Forbidden("web pages of this Origin may not use /mcp; MCP_ALLOWED_ORIGINS names those that may")
    return _Handled(state.tools)
