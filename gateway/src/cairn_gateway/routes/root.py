"""`GET /`: where to go."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

CONSOLE = "/console/"


def root_router(*, console: bool) -> APIRouter:
    """A person is led to the console, a program is told what there is."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def root(request: Request) -> Response:
        if console and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(CONSOLE, 307)
        places = {"service": "cairn", "api": "/docs", "openapi": "/openapi.json", "health": "/health"}
        return JSONResponse(places | ({"console": CONSOLE} if console else {}))

    return router
