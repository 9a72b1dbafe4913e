"""Any OpenAI-compatible chat endpoint: one attempt, streamed, bounded in time and in size.

`POST {base}/chat/completions`, https://platform.openai.com/docs/api-reference/chat. Servers differ in what they
support, so after a refusal this adapter asks in a simpler dialect, and keeps to what works for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpx
from pydantic import SecretStr

from cairn_answerer.adapters.completions import MAX_COMPLAINT, Silence, read_stream, read_whole
from cairn_answerer.dialects import FULL, Dialect, Experience
from cairn_answerer.errors import ModelFailure, RefusedByModelServer, RetryableFailure
from cairn_answerer.ports import Completion, JsonSchema, Message, Reader
from cairn_answerer.thinking import Spoken
from cairn_shared.http import retry_after
from cairn_shared.logging import get_logger
from cairn_shared.openai import Endpoint

log = get_logger(__name__)

_PERHAPS_THE_REQUEST = (500, 501, 502)
"""503 and 504 speak of load (RFC 9110 §15.6); behind these may be a template or a backend that takes less."""
_MALFORMED = (400, 422)
_UNKNOWN_THERE = (404, 405, 415)
"""OpenRouter answers 404 where no provider takes a parameter."""


class OpenAIModel:
    """One chat model. `client` has the endpoint's address as its base URL."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        endpoint: Endpoint,
        experience: Experience,
        *,
        model: str,
        api_key: SecretStr | None,
        max_tokens: int,
        temperature: float,
        silence: Silence,
    ) -> None:
        self._client = client
        self._query = endpoint.query
        self._headers = {"accept": "text/event-stream, application/json", **endpoint.headers(api_key)}
        self._experience = experience
        self._model = model
        self._max_tokens = max_tokens
        self._temperature = temperature
        self._silence = silence
        self._thinks_unopened = False

    async def attempt(
        self, messages: Sequence[Message], reader: Reader, *, seconds: float, schema: JsonSchema | None = None
    ) -> Completion:
        """One answer within `seconds`, of the form of `schema` where the server can do that.

        Raises:
            RetryableFailure: connection, time-out, 429, 5xx, or the stream broke off.
            RefusedByModelServer: another 4xx.
            BadOutput: what came is no chat completion.
            ModelFailure: it thought until it had no tokens left.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._with_fallback(messages, reader, schema)
        except TimeoutError as exc:
            raise RetryableFailure("llm_timeout", "the model gave no answer in its time") from exc

    async def _with_fallback(
        self, messages: Sequence[Message], reader: Reader, schema: JsonSchema | None
    ) -> Completion:
        dialect = self._experience.dialect()
        failed: ModelFailure | None = None
        while True:
            try:
                completion = await self._request(messages, reader, schema, dialect)
            except (RetryableFailure, RefusedByModelServer) as exc:
                if failed is not None:
                    self._experience.plain_failed()
                    raise exc if isinstance(exc, RetryableFailure) else failed from exc
                simpler, unclear = self._after(exc, dialect)
                if simpler is None:
                    raise
                log.info("the model is asked in a simpler way", reason=exc.reason, detail=exc.detail, simpler=simpler)
                dialect, failed = simpler, exc if unclear else None
            else:
                if schema is not None or dialect != FULL:
                    self._experience.worked(dialect, by_chance=failed is not None)
                return completion

    def _after(self, failure: RetryableFailure | RefusedByModelServer, dialect: Dialect) -> tuple[Dialect | None, bool]:
        """(what to try after `failure`, whether it is a guess)."""
        if isinstance(failure, RetryableFailure):
            return (self._experience.plainest(dialect), True) if failure.perhaps_the_request else (None, False)
        if failure.http_status in _MALFORMED:
            return self._experience.simpler(dialect, failure.complaint), False
        if failure.http_status in _UNKNOWN_THERE:
            return self._experience.plainest(dialect), True
        return None, False

    async def _request(
        self, messages: Sequence[Message], reader: Reader, schema: JsonSchema | None, dialect: Dialect
    ) -> Completion:
        reader.restart()
        spoken = Spoken(reader, thinking=self._thinks_unopened)
        body = dialect.body(messages, schema=schema, max_tokens=self._max_tokens, temperature=self._temperature)
        # How long silence may last is seen where words can be told from it; here the attempt alone sets the limit.
        patience = httpx.Timeout(**{**self._client.timeout.as_dict(), "read": None})
        try:
            async with (
                asyncio.timeout(self._silence.first if dialect.stream else None) as waiting,
                self._client.stream(
                    "POST",
                    "chat/completions",
                    json={"model": self._model, **body},
                    params=self._query or None,
                    headers=self._headers,
                    timeout=patience,
                ) as response,
            ):
                waiting.reschedule(None)
                if response.status_code >= 400:
                    raise _refusal(response, await _start(response))
                if "text/event-stream" in response.headers.get("content-type", ""):
                    completion = await read_stream(response, spoken, self._silence)
                else:
                    completion = await read_whole(response, spoken)
        except httpx.TimeoutException as exc:
            raise RetryableFailure("llm_timeout", "the model timed out") from exc
        except httpx.HTTPError as exc:
            raise RetryableFailure("llm_unreachable", f"the model cannot be reached: {type(exc).__name__}") from exc
        self._thinks_unopened = spoken.began_unopened
        return completion


def _refusal(response: httpx.Response, complaint: str) -> RetryableFailure | RefusedByModelServer:
    status = response.status_code
    wait = retry_after(response)
    if status == 429:
        return RetryableFailure("llm_rate_limited", "the model's server limits our rate", retry_after=wait)
    if status >= 500 or status == 408:
        unclear = status in _PERHAPS_THE_REQUEST and wait is None
        detail = f"the model's server answered {status}"
        return RetryableFailure("llm_error", detail, retry_after=wait, perhaps_the_request=unclear)
    if status in (401, 403):
        return RefusedByModelServer("llm_refused_key", "the model's server refuses LLM_API_KEY", status=status)
    return RefusedByModelServer(
        "llm_refused_request", f"the model's server answered {status}", status=status, complaint=complaint
    )


async def _start(response: httpx.Response) -> str:
    """The beginning of a refusal's text."""
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) >= MAX_COMPLAINT:
            break
    return body[:MAX_COMPLAINT].decode(errors="replace")
