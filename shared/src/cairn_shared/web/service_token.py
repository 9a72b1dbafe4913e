"""The service token in front of an app."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from cairn_shared.service_token import proven, refusal
from cairn_shared.settings import ServiceSettings
from cairn_shared.web import problem

PROBES = frozenset({"/health", "/health/ready", "/metrics"})
"""What is asked every few seconds by who has no token, and would fill the log."""


class ServiceToken:
    """Answers 401, before the body is read, to whoever does not prove to be one of Cairn's processes."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in PROBES:
            sent = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
            if not proven(sent, self._settings):
                await problem.of(refusal())(scope, receive, send)
                return
        await self._app(scope, receive, send)
