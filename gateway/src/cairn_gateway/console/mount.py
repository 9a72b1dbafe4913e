"""The console as a part of the gateway's app."""

from __future__ import annotations

from fastapi import FastAPI
from nicegui import ui
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cairn_gateway.console.frame import Console
from cairn_gateway.console.login import PATH, login_router
from cairn_gateway.console.pages import ask, dead_letters, questions, runbooks, search, status, timeline
from cairn_gateway.console.session import Sessions

HEADERS = (
    # NiceGUI compiles its templates in the browser: scripts cannot be held to hashes. Nothing foreign is ever loaded,
    # and no text of a runbook becomes HTML unescaped (`rendering.py`).
    (
        b"content-security-policy",
        (
            b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
            b"img-src 'self' data:; font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'self'; "
            b"form-action 'self'; frame-ancestors 'none'"
        ),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
)
_NAMES = frozenset(name for name, _ in HEADERS)


def mount(app: FastAPI, sessions: Sessions) -> None:
    """Add the pages below `/console`. A process has one console: NiceGUI keeps its pages for the whole process."""
    app.include_router(login_router(sessions))
    console = Console(app, sessions)
    for page in (ask, search, runbooks, timeline, dead_letters, questions, status):
        page.add(console)
    ui.run_with(
        app, mount_path=PATH, title="Cairn", favicon="🪨", dark=None, show_welcome_message=False, tailwind=False
    )
    app.add_middleware(ConsoleHeaders)


class ConsoleHeaders:
    """Security headers for what is below `/console`, instead of those of the API."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PATH):
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                others = [pair for pair in message.get("headers", []) if pair[0].lower() not in _NAMES]
                message["headers"] = [*others, *HEADERS]
            await send(message)

        await self._app(scope, receive, send_with_headers)
