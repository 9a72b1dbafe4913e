"""Any OpenAI-compatible chat endpoint, asked for a whole answer at once: nobody reads along.

`POST {base}/chat/completions`, https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import orjson
from pydantic import SecretStr

from cairn_ingest_consumer.errors import NothingUsable
from cairn_shared.errors import TransientError, Unavailable
from cairn_shared.http import retry_after
from cairn_shared.openai import Endpoint

NAME = "model"
MAX_ANSWER = 1024 * 1024
"""Bytes of one answer that are read."""


class ChatModel:
    """As `ports.QuestionModel`. `client` has the endpoint's address as its base URL.

    Nothing optional is asked for (temperature, length, a schema): servers differ in what they take, and the answer is
    bounded here by time and size.
    """

    def __init__(self, client: httpx.AsyncClient, endpoint: Endpoint, *, model: str, api_key: SecretStr | None) -> None:
        self._client = client
        self._model = model
        self._query = endpoint.query
        self._headers = endpoint.headers(api_key)

    async def write(self, system: str, user: str, seconds: float) -> str:
        """As `ports.QuestionModel.write`."""
        body = {
            "model": self._model,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
        }
        try:
            async with asyncio.timeout(seconds):
                return await self._ask(body)
        except TimeoutError as exc:
            # It may be this page that takes so long: not a reason to ask for it for ever.
            raise NothingUsable(f"the {NAME} took longer than {seconds:.0f} s") from exc
        except httpx.TimeoutException as exc:
            raise Unavailable(NAME, f"the {NAME} timed out") from exc
        except httpx.HTTPError as exc:
            raise Unavailable(NAME) from exc

    async def _ask(self, body: dict[str, Any]) -> str:
        request = self._client.stream(
            "POST",
            "chat/completions",
            params=self._query or None,
            json=body,
            headers=self._headers,
            timeout=httpx.Timeout(None, connect=5.0),
        )
        async with request as response:
            status = response.status_code
            if status in (408, 429) or status >= 500:
                raise Unavailable(NAME, f"the {NAME} answered {status}", retry_after=retry_after(response))
            if status in (401, 403, 404):
                raise TransientError(f"the {NAME} answered {status}: is LLM_BASE_URL, LLM_API_KEY or LLM_MODEL wrong?")
            if status >= 400:
                raise NothingUsable(f"the {NAME} answered {status}")
            content = bytearray()
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > MAX_ANSWER:
                    raise NothingUsable(f"the answer of the {NAME} has no end")
        return _text(bytes(content))


def _text(content: bytes) -> str:
    try:
        text = orjson.loads(content)["choices"][0]["message"]["content"]
    except (orjson.JSONDecodeError, KeyError, IndexError, TypeError) as exc:
        raise NothingUsable(f"the {NAME} does not speak the chat protocol") from exc
    if not isinstance(text, str):
        raise NothingUsable(f"the {NAME} wrote nothing")
    return text
