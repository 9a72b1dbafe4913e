"""What is kept of a question, made of the answer's JSON. Pure, and not done while anybody waits for the answer."""

from __future__ import annotations

import re
import unicodedata
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from cairn_gateway.caller import Caller
from cairn_shared.api.ask import AnswerMode, AskRequest
from cairn_shared.redaction import redact

RecordedMode = AnswerMode | Literal["busy", "left", "broken"]
"""How a question ended. busy: turned away for load. left: the asker went away. broken: no answer that can be read."""

SHOWN = 5
_NO_WORD = re.compile(r"[^\w]+")


@dataclass(frozen=True)
class Asked:
    """A question as it was asked and the answer as it was given; `answer` is an `AskResponse` as JSON, if there was."""

    request: AskRequest
    caller: Caller | None
    request_id: str | None
    traceparent: str | None
    asked_at: datetime
    seconds: float
    answer: bytes | None = None
    ended: Literal["busy", "left"] | None = None


class _Source(BaseModel):
    runbook_id: str
    kind: str = "runbook"
    title: str = ""
    step: int = 0
    score: float = 0.0
    cited: bool = False


class _Near(BaseModel):
    runbook_id: str
    title: str = ""


class _Answer(BaseModel):
    """The little of an answer that is kept."""

    mode: AnswerMode
    degraded: bool = False
    degraded_reason: str | None = None
    sources: list[_Source] = []
    nearest: list[_Near] = []
    timings: dict[str, float] = {}


def document_of(asked: Asked, keep: timedelta) -> dict[str, Any]:
    """The question as it is stored; secrets are redacted."""
    question = redact(asked.request.question)
    alert = asked.request.alert
    answer = _parsed(asked.answer)
    mode: str = asked.ended or (answer.mode if answer else "broken")
    sources = answer.sources if answer else []
    return {
        "_id": uuid.uuid4().hex,
        "asked_at": asked.asked_at,
        "expires_at": asked.asked_at + keep,
        "user_id": asked.caller.user_id if asked.caller else None,
        "key_id": asked.caller.key_id if asked.caller else None,
        "via": asked.caller.via if asked.caller else None,
        "question": question,
        "shape": shape(question),
        "alert": redact(alert.name) if alert and alert.name else None,
        "follow_up": asked.request.context is not None,
        "stream": asked.request.stream,
        "mode": mode,
        "degraded": answer.degraded if answer else False,
        "degraded_reason": answer.degraded_reason if answer else None,
        "cited": [_step(source) for source in sources if source.cited],
        "shown": [_step(source) for source in sources if not source.cited][:SHOWN],
        "nearest": [near.model_dump() for near in answer.nearest[:SHOWN]] if answer else [],
        "timings": answer.timings if answer else {},
        "seconds": round(asked.seconds, 4),
        "request_id": asked.request_id,
        "trace_id": asked.traceparent.split("-")[1] if asked.traceparent else None,
    }


def shape(question: str) -> str:
    """The same for questions that differ only in case, punctuation and the order of their words."""
    plain = unicodedata.normalize("NFKC", question).casefold()
    return " ".join(sorted(set(_NO_WORD.sub(" ", plain).split())))[:500]


def _step(source: _Source) -> dict[str, Any]:
    return source.model_dump(exclude={"cited"})


def _parsed(answer: bytes | None) -> _Answer | None:
    if answer is None:
        return None
    try:
        return _Answer.model_validate_json(answer)
    except ValidationError:
        return None
