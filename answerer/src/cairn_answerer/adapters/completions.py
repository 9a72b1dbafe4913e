"""Chat completions as servers send them, whole or streamed: leniently, and never what the model only thought.

https://platform.openai.com/docs/api-reference/chat. Known ways to differ: events without `choices` (usage, Azure's
filters), without `delta`, with `choices` null; content in parts; an error with status 200; no `[DONE]`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from cairn_answerer.errors import BadOutput, ModelFailure, RefusedByModelServer, RetryableFailure
from cairn_answerer.ports import Completion
from cairn_answerer.thinking import Spoken
from cairn_shared import sse

MAX_RESPONSE = 16 * 1024 * 1024
"""Bytes of one response that are read, framing included: some 250 bytes for each word of a long thought."""

MAX_COMPLAINT = 4096
"""Characters of a refusal that are read."""

_DONE = "[DONE]"
_CUT = ("length", "max_tokens", "content_filter")


@dataclass(frozen=True)
class Silence:
    """Seconds until a stream counts as hanging: before the model's first word (None: however long), and after it."""

    first: float | None
    between: float


async def read_whole(response: httpx.Response, spoken: Spoken) -> Completion:
    """A completion in one piece.

    Raises:
        ModelFailure: it is none.
    """
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > MAX_RESPONSE:
            raise BadOutput("the model's answer has no end")
    answer = _json(bytes(body))
    _raise_told_error(answer)
    choice = _choice(answer)
    if choice is None:
        raise _no_protocol()
    message = choice.get("message")
    spoken.feed(_text(message.get("content") if isinstance(message, dict) else choice.get("text")))
    return _completion(spoken, choice.get("finish_reason"))


async def read_stream(response: httpx.Response, spoken: Spoken, silence: Silence) -> Completion:
    """A completion as server-sent events, read until the model or the reader has had enough.

    Raises:
        ModelFailure: it is none, or it broke off.
    """
    finished: str | None = None
    understood = False
    patience = silence.first
    try:
        async with aclosing(_documents(response)) as documents:
            while (event := await _next(documents, patience)) is not None:
                if event == _DONE:
                    finished = finished or "stop"
                    break
                _raise_told_error(event)
                choice = _choice(event)
                if choice is None:
                    continue
                understood = True
                delta = choice.get("delta") or {}
                if any(value for name, value in delta.items() if name != "role"):
                    patience = silence.between  # it speaks, or thinks
                finished = choice.get("finish_reason") or finished
                if not spoken.feed(_text(delta.get("content"))):
                    return Completion(text=spoken.text, truncated=True)
    except sse.TooLong as exc:
        if not spoken.text:
            raise BadOutput("the model's answer has no end") from exc
        return Completion(text=spoken.text, truncated=True)
    if finished is None and understood:
        raise _broken_off()
    if not understood:
        raise _no_protocol()
    return _completion(spoken, finished)


async def _documents(response: httpx.Response) -> AsyncGenerator[Any, None]:
    """What the events hold, as JSON; `_DONE` as it is, and last."""
    broken = False
    async for event in sse.events(response.aiter_bytes(), limit=MAX_RESPONSE):
        if broken:
            raise _no_protocol()
        if event.data.strip() == _DONE:
            yield _DONE
            return
        documents = _loaded(event.data)
        broken = documents is None
        for document in documents or ():
            if document is not None:
                yield document
    if broken:
        raise _broken_off()  # in the middle of an event


def _loaded(data: str) -> list[Any] | None:
    """The JSON of an event; of each line where a server leaves out the blank lines between events."""
    for pieces in ([data], data.splitlines()):
        try:
            return [orjson.loads(piece) for piece in pieces if piece != _DONE]
        except orjson.JSONDecodeError:
            continue
    return None


async def _next(documents: AsyncGenerator[Any, None], seconds: float | None) -> Any:
    """The next document, None at the end."""
    try:
        async with asyncio.timeout(seconds):
            return await anext(documents, None)
    except TimeoutError as exc:
        raise RetryableFailure("llm_timeout", "the model fell silent") from exc


def _completion(spoken: Spoken, finished: Any) -> Completion:
    spoken.finish()
    cut = finished in _CUT
    if cut and not spoken.text.strip():
        raise ModelFailure("llm_truncated", "the model used up LLM_MAX_TOKENS before it said anything; give it more")
    return Completion(text=spoken.text, truncated=cut)


def _raise_told_error(answer: Any) -> None:
    """An error that comes with status 200, as proxies and streams send it."""
    if not isinstance(answer, dict) or not (answer.get("error") or answer.get("object") == "error"):
        return
    error = answer["error"] if isinstance(answer.get("error"), dict) else answer
    status = error.get("code")
    if status == 429:
        raise RetryableFailure("llm_rate_limited", "the model's server limits our rate")
    if isinstance(status, int) and 400 <= status < 500 and status != 408:
        complaint = str(error.get("message", ""))[:MAX_COMPLAINT]
        raise RefusedByModelServer(
            "llm_refused_request", f"the model's server answered {status}", status=status, complaint=complaint
        )
    raise RetryableFailure("llm_error", "the model's server broke off with an error")


def _json(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        raise _no_protocol() from exc


def _choice(answer: Any) -> dict[str, Any] | None:
    choices = answer.get("choices") if isinstance(answer, dict) else None
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None


def _text(content: Any) -> str:
    """What is said in `content`: a string, or parts of which thoughts are of another type."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(
            part["text"]
            for part in content
            if isinstance(part, dict)
            and part.get("type", "text") in ("text", "output_text")
            and isinstance(part.get("text"), str)
        )
    return ""


def _no_protocol() -> BadOutput:
    return BadOutput("the model's server does not speak the chat protocol")


def _broken_off() -> RetryableFailure:
    return RetryableFailure("llm_unreachable", "the model's stream broke off")
