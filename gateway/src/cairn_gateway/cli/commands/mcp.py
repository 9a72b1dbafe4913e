"""`cairn mcp`."""

from __future__ import annotations

import asyncio
from importlib.metadata import version

import typer

from cairn_gateway.cli.client import this_target
from cairn_gateway.cli.target import Target


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("mcp")(serve)


def serve() -> None:
    """Serve the tools ask, search and get_runbook to an MCP client over stdin and stdout.

    Set it as the command of a stdio server in the client's configuration; it ends when the client does. A gateway
    offers the same tools over HTTP at /mcp.
    """
    target = this_target()
    asyncio.run(_serve(target))


async def _serve(target: Target) -> None:
    # Loaded for this command only: the protocol's library takes as long as all others together.
    from mcp.server.stdio import stdio_server

    from cairn_gateway.cli.far_knowledge import open_knowledge
    from cairn_gateway.mcp_server.server import build_server

    async with open_knowledge(target) as knowledge, stdio_server() as (incoming, outgoing):
        server = build_server(knowledge, version("cairn-gateway"))
        await server.run(incoming, outgoing, server.create_initialization_options())
