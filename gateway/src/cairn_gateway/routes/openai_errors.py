"""Problems as OpenAI's errors, wherever in the app they arise: also what no route sees (404, 413)."""

from __future__ import annotations

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cairn_gateway.compat.errors import INTERNAL, error_of
from cairn_shared.logging import get_logger
from cairn_shared.web.problem import MEDIA_TYPE

log = get_logger(__name__)

PREFIX = "/v1/"
OTHERS = ("/v1/logs", "/v1/traces", "/v1/metrics")
"""OTLP's own paths (https://opentelemetry.io/docs/specs/otlp/#otlphttp-request)."""


def speaks_openai(path: str) -> bool:
    """Whether a client of OpenAI's API asks there."""
    return path.startswith(PREFIX) and not path.startswith(OTHERS)


class OpenAIErrors:
    """Rewrites `application/problem+json` under `/v1/`; answers that are no problems pass untouched."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not speaks_openai(scope["path"]):
            await self._app(scope, receive, send)
            return
        translation = _Translation(send)
        try:
            await self._app(scope, receive, translation.send)
        except Exception as exc:
            if translation.begun:
                raise
            log.exception("unforeseen error", exc_info=exc)
            await translation.send_error(500, [], {"status": 500, "detail": INTERNAL})


class _Translation:
    """One answer on its way out; a problem is held until it is whole."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._held: Message | None = None
        self._body = b""
        self.begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_problem(message):
            self._held = message
            return
        if self._held is None:
            self.begun = True
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if not message.get("more_body", False):
            await self.send_error(self._held["status"], self._held["headers"], orjson.loads(self._body))

    async def send_error(self, status: int, headers: list[tuple[bytes, bytes]], problem: dict[str, object]) -> None:
        self.begun = True
        status, error = error_of({"status": status, **problem})
        body = error.model_dump_json().encode()
        kept = [(name, value) for name, value in headers if name.lower() not in {b"content-type", b"content-length"}]
        sized = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self._send({"type": "http.response.start", "status": status, "headers": [*kept, *sized]})
        await self._send({"type": "http.response.body", "body": body})


def _is_problem(start: Message) -> bool:
    headers = {name.lower(): value for name, value in start.get("headers", [])}
    return bool(headers.get(b"content-type", b"").startswith(MEDIA_TYPE.encode()))
