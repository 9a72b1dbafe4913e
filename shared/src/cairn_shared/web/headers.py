"""What tells a browser to do nothing with an answer but show it (OWASP, HTTP Security Response Headers)."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_NOTHING = b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
# FastAPI's page of the API loads Swagger UI or ReDoc from this host, and begins it with a script of its own.
_DOCS = (
    b"default-src 'none'; script-src 'unsafe-inline' https://cdn.jsdelivr.net; connect-src 'self'; "
    b"style-src 'unsafe-inline' https://cdn.jsdelivr.net; img-src data: https://fastapi.tiangolo.com; "
    b"worker-src blob:; frame-ancestors 'none'; base-uri 'none'"
)
_DOCS_PATHS = frozenset({"/docs", "/redoc"})


class SecurityHeaders:
    """Adds the headers that an answer does not have: a page with a policy of its own keeps it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            b"content-security-policy": _DOCS if scope["path"] in _DOCS_PATHS else _NOTHING,
            b"x-content-type-options": b"nosniff",
            b"x-frame-options": b"DENY",
            b"referrer-policy": b"no-referrer",
        }

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.lower(), value) for name, value in message.get("headers", [])]
                names = {name for name, _ in own}
                message["headers"] = [*own, *(pair for pair in headers.items() if pair[0] not in names)]
            await send(message)

        await self._app(scope, receive, send_with_headers)
