"""The protocol's side: lists the tools and calls them; what goes wrong becomes a result that a model can read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)

from cairn_gateway.mcp_server.knowledge import Knowledge
from cairn_gateway.mcp_server.tools import INSTRUCTIONS, TOOLS
from cairn_shared import context
from cairn_shared.errors import CairnError
from cairn_shared.logging import get_logger

log = get_logger(__name__)

NAME = "cairn"
Context = ServerRequestContext[Any, Any]


def build_server(knowledge: Knowledge, version: str) -> Server[dict[str, Any]]:
    """A server with the three tools, for any transport."""
    listed = ListToolsResult(tools=[tool.described() for tool in TOOLS.values()])
    schemas = {tool.name: tool.input_schema for tool in listed.tools}

    async def list_tools(_: Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        return listed

    async def call_tool(_: Context, params: CallToolRequestParams) -> CallToolResult:
        return await call(knowledge, params.name, params.arguments or {})

    return Server(
        NAME,
        version=version,
        title="Cairn",
        description="Answers on-call questions from runbooks, with citations that code has checked.",
        instructions=INSTRUCTIONS,
        get_tool_input_schema=schemas.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def call(knowledge: Knowledge, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
    """The result of one call; a failure is a result as well.

    Raises:
        MCPError: there is no such tool.
    """
    tool = TOOLS.get(name)
    if tool is None:
        raise MCPError(INVALID_PARAMS, f"there is no tool {name[:100]!r}; there are {', '.join(TOOLS)}")
    try:
        outcome = await tool.call(knowledge, arguments)
    except CairnError as exc:
        return _failed(exc.detail)
    except Exception:
        log.exception("tool failed", tool=name)
        where = context.request_id.get()
        return _failed("Something went wrong on Cairn's side" + (f"; its log has it as {where}" if where else ""))
    return CallToolResult(content=[TextContent(text=outcome.text)], structured_content=outcome.structured)


def _failed(detail: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=detail)], is_error=True)
