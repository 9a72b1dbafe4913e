"""Cairn as tools of the Model Context Protocol (https://modelcontextprotocol.io/specification).

`tools` says what there is, `server` speaks the protocol, `knowledge` is what they ask: in the gateway its own use
cases (`own`, mounted at `/mcp` by `endpoint`), in `cairn mcp` a gateway over HTTP. Nothing here imports FastAPI.
"""
