"""`POST /v1/chat/completions`: the request as our question, our answer as a completion."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from cairn_gateway.command_notes import with_notes
from cairn_gateway.compat.conversation import ChatMessage, plain_text, question_of
from cairn_gateway.compat.errors import UnknownModel
from cairn_gateway.drafts import reject_nul
from cairn_shared.api.ask import AnswerMode, AskRequest, AskResponse, Claim, Freshness, NearPage, Source
from cairn_shared.api.ask import Choice as Offered
from cairn_shared.errors import InvalidInput
from cairn_shared.events import first_error

MODEL = "cairn"


class StreamOptions(BaseModel):
    """What a stream should hold."""

    include_usage: bool | None = None


class ChatRequest(BaseModel):
    """A conversation whose last user message is the question.

    Parameters of sampling (`temperature`, `max_tokens`, `stop` ...) are accepted and have no effect: an answer is
    verified as a whole and never cut. What would need another kind of answer is refused.
    """

    model: Annotated[str, Field(description="`cairn`.", json_schema_extra={"enum": [MODEL]})]
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=2000)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int | None, Field(description="1.")] = None
    logprobs: bool | None = None
    modalities: Annotated[list[str] | None, Field(description='["text"].')] = None
    response_format: Annotated[dict[str, Any] | None, Field(description='{"type": "text"}.')] = None
    tool_choice: Annotated[str | dict[str, Any] | None, Field(description="`none` or `auto`.")] = None
    cairn: Annotated[
        dict[str, Any] | None,
        Field(description="What else `POST /ask` takes: `alert`, `context` (else made of the messages), `k` ..."),
    ] = None


class Usage(BaseModel):
    """Tokens, estimated at four characters each: the gateway does not know whose tokens they would be."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Evidence(BaseModel):
    """What `POST /ask` says beside the text: what it rests on, and what could not be done."""

    question: Annotated[str, Field(description="What was asked.")]
    follows: Annotated[bool, Field(description="It was taken to be about the answer before it.")]
    mode: AnswerMode
    degraded: bool
    degraded_reason: str | None
    claims: list[Claim]
    dropped_claims: int
    sources: list[Source]
    choices: list[Offered]
    nearest: list[NearPage]
    missing_alert: str | None
    freshness: Freshness
    timings: dict[str, float]
    request_id: str | None

    @classmethod
    def of(cls, question: str, answer: AskResponse) -> Evidence:
        """From the answer to `question`."""
        shared = {name: getattr(answer, name) for name in cls.model_fields if name != "question"}
        return cls(question=question, **shared)


class AssistantMessage(BaseModel):
    """The answer's text with its markers, `[Title, Step N]`, and below it the labels of its commands."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class Choice(BaseModel):
    """The one choice there is. An answer is always whole, so it always ends with `stop`."""

    index: Literal[0] = 0
    message: AssistantMessage
    logprobs: None = None
    finish_reason: Literal["stop"] = "stop"


class ChatCompletion(BaseModel):
    """An answer in the shape of OpenAI's; `cairn` holds what it rests on."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str = MODEL
    choices: list[Choice]
    usage: Usage
    system_fingerprint: None = None
    cairn: Evidence


def to_question(request: ChatRequest) -> AskRequest:
    """What is asked of the answerer.

    Raises:
        UnknownModel: another model is asked for.
        InvalidInput: a parameter or message is not understood; it is named.
    """
    if request.model != MODEL:
        raise UnknownModel(f"model: there is no model {request.model[:100]!r} here; use {MODEL!r}", field="model")
    _refuse_unsupported(request)
    question = question_of(request.messages)
    reject_nul(question.text, question.field)
    options = {"context": question.earlier, **(request.cairn or {})}
    for name in ("question", "stream"):
        if name in options:
            raise InvalidInput(f"cairn.{name}: it comes from the request itself", field=f"cairn.{name}")
    try:
        return AskRequest.model_validate({**options, "question": question.text, "stream": bool(request.stream)})
    except ValidationError as exc:
        error = exc.errors(include_input=False, include_url=False, include_context=False)[0]
        path = ".".join(str(part) for part in error["loc"])
        if path == "question":
            raise InvalidInput(f"{question.field}: {error['msg']}", field=question.field) from exc
        raise InvalidInput(f"cairn.{first_error(exc)}", field=f"cairn.{path}") from exc


def to_completion(
    answer: AskResponse, *, completion_id: str, created: int, question: str, prompt_tokens: int
) -> ChatCompletion:
    """`answer` as a completion; `created` is a Unix time in seconds."""
    text = with_notes(answer)
    return ChatCompletion(
        id=completion_id,
        created=created,
        choices=[Choice(message=AssistantMessage(content=text))],
        usage=usage_of(prompt_tokens, text),
        cairn=Evidence.of(question, answer),
    )


def usage_of(prompt_tokens: int, answer: str) -> Usage:
    """The usage of an answer."""
    tokens = estimated_tokens(answer)
    return Usage(prompt_tokens=prompt_tokens, completion_tokens=tokens, total_tokens=prompt_tokens + tokens)


def prompt_tokens_of(messages: Iterable[ChatMessage]) -> int:
    """The tokens of a conversation, estimated."""
    return sum(estimated_tokens(plain_text(message)) for message in messages)


def estimated_tokens(text: str) -> int:
    """A token is about four characters of English."""
    return -(-len(text) // 4)


def _refuse_unsupported(request: ChatRequest) -> None:
    if request.n not in {None, 1}:
        raise InvalidInput("n: there is one answer to a question; leave it out or send 1", field="n")
    if request.logprobs:
        raise InvalidInput("logprobs: Cairn has none; leave it out", field="logprobs")
    if set(request.modalities or ()) - {"text"}:
        raise InvalidInput('modalities: Cairn answers in text only; send ["text"]', field="modalities")
    if request.response_format is not None and request.response_format.get("type") != "text":
        message = (
            "response_format: answers are Markdown with citations; the member `cairn` of every answer has them as JSON"
        )
        raise InvalidInput(message, field="response_format")
    if request.tool_choice is not None and request.tool_choice not in ("none", "auto"):
        raise InvalidInput("tool_choice: Cairn calls no tools; send `none` or `auto`", field="tool_choice")
