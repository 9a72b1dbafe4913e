"""The gateway's own routes, called with the key of who is logged in: roles, limits and audit hold as for any client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson
from fastapi import FastAPI

from cairn_gateway.caller import Caller, caller
from cairn_gateway.dependencies import State
from cairn_gateway.sse import frames
from cairn_shared.api.ask import AskRequest
from cairn_shared.errors import CairnError

Json = dict[str, Any]
TIMEOUT = 120.0


class Refused(Exception):
    """What the gateway says instead of doing it."""

    def __init__(self, status: int, detail: str, field: str | None = None) -> None:
        super().__init__(f"{field}: {detail}" if field else detail)
        self.status = status
        self.detail = detail
        self.field = field


class Api:
    """A client of the gateway in its own process."""

    def __init__(self, app: FastAPI, key: str) -> None:
        self._app = app
        self._key = key
        self._http = httpx.AsyncClient(
            transport=httpx.ASGITransport(app, raise_app_exceptions=False, client=("console", 0)),
            base_url="http://console",
            headers={"Authorization": f"Bearer {key}"},
            timeout=TIMEOUT,
        )

    async def get(self, path: str, **query: Any) -> Json:
        """The JSON at `path`; absent values are left out of the query."""
        found: Json = orjson.loads(await self._sent("GET", path, params=_given(query)))
        return found

    async def text(self, path: str) -> str:
        """The Markdown at `path`."""
        return (await self._sent("GET", path, headers={"Accept": "text/markdown"})).decode()

    async def post(self, path: str, body: Json) -> Json:
        """The answer to `body`."""
        answer = await self._sent("POST", path, json=body)
        found: Json = orjson.loads(answer) if answer else {}
        return found

    async def put_markdown(self, path: str, text: str, revision: int | None) -> Json:
        """Write a text; over the given revision only, or (None) where there is nothing yet."""
        condition = {"If-Match": f'"{revision}"'} if revision is not None else {"If-None-Match": "*"}
        headers = {"Content-Type": "text/markdown", **condition}
        found: Json = orjson.loads(await self._sent("PUT", path, content=text.encode(), headers=headers))
        return found

    async def ask(self, body: Json) -> AsyncIterator[tuple[str, Json]]:
        """The answer's events as they come: `sources`, `claim` ..., `done`."""
        state: State = self._app.state.gateway
        try:
            principal = await state.authenticator.authenticate(self._key)
            await state.limiter.check(principal)
            caller.set(Caller(principal.user_id, principal.key_id, "/console"))
            async for frame in frames(state.asking.stream(AskRequest.model_validate({**body, "stream": True}))):
                if frame.event:
                    yield frame.event, orjson.loads(frame.data)
        except CairnError as exc:
            raise Refused(exc.status, exc.detail) from exc

    async def _sent(self, method: str, path: str, **options: Any) -> bytes:
        answer = await self._http.request(method, path, **options)
        if answer.is_success:
            return answer.content
        try:
            problem = answer.json()
        except ValueError:
            problem = {}
        raise Refused(answer.status_code, problem.get("detail") or answer.reason_phrase, problem.get("field"))


def _given(query: Json) -> Json:
    return {name: value for name, value in query.items() if value not in (None, "")}
