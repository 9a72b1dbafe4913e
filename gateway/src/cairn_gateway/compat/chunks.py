"""The answerer's events as chunks of a streamed completion.

What is sent cannot be taken back, and need not be: the answerer withdraws nothing. Where a part has its place before
what was sent, the whole answer follows once more, in order. The text of a stream without that is exactly the text of a
completion.
"""

from __future__ import annotations

from typing import Literal

import orjson
from pydantic import BaseModel

from cairn_gateway.command_notes import with_notes
from cairn_gateway.compat.chat import MODEL, Evidence, Usage, usage_of
from cairn_gateway.compat.errors import INTERNAL, error_of
from cairn_gateway.sse import Frame
from cairn_shared.api.ask import AskResponse, Claim
from cairn_shared.narration import Narration

END = b"data: [DONE]\n\n"
WAITING = b": waiting\n\n"
AGAIN = "\n\n---\n\n**The whole answer, in the order of its runbook:**\n\n"


class Delta(BaseModel):
    """What a chunk adds to the message."""

    role: Literal["assistant"] | None = None
    content: str | None = None


class ChunkChoice(BaseModel):
    """The one choice there is."""

    index: Literal[0] = 0
    delta: Delta
    logprobs: None = None
    finish_reason: Literal["stop"] | None = None


class Chunk(BaseModel):
    """A part of a streamed completion. The last that has a choice has `cairn` as well."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str = MODEL
    choices: list[ChunkChoice]
    system_fingerprint: None = None
    usage: Usage | None = None
    cairn: Evidence | None = None


class Refusal(BaseModel):
    """The answerer's `error` event: the request turned out to be wrong."""

    detail: str
    field: str | None = None


class Transcript:
    """The text of an answer, as far as it was given out."""

    def __init__(self) -> None:
        self._given = ""
        self._narration = Narration()

    def claim(self, claim: Claim) -> str:
        """What a part adds."""
        added = told(self._narration, claim)
        self._given += added
        return added

    def whole(self, answer: str) -> str:
        """What is missing of the whole answer."""
        if answer.startswith(self._given):
            return answer[len(self._given) :]
        return AGAIN + answer


def told(narration: Narration, claim: Claim) -> str:
    """A part as the answerer writes it into an answer."""
    citation = claim.citations[0] if claim.citations else None
    return narration.add(
        claim.text,
        origin=claim.origin,
        marker=citation.marker if citation else "",
        byline=citation.byline if citation else "",
        path=citation.path if citation else None,
        lines=citation.lines if citation else None,
    )


class ChunkWriter:
    """Writes one streamed completion, event by event."""

    def __init__(
        self, *, completion_id: str, created: int, question: str, prompt_tokens: int, include_usage: bool
    ) -> None:
        self._id = completion_id
        self._created = created
        self._question = question
        self._prompt_tokens = prompt_tokens
        self._include_usage = include_usage
        self._transcript = Transcript()
        self.over = False

    def begin(self) -> bytes:
        """The first chunk: who speaks."""
        return self._chunk(Delta(role="assistant", content=""))

    def feed(self, frame: Frame) -> bytes:
        """What one event of the answerer becomes; a comment where there is nothing to say yet.

        Raises:
            ValueError: it is not what was agreed with the answerer.
        """
        if self.over:
            return b""
        if frame.event == "claim":
            return self._text(self._transcript.claim(Claim.model_validate_json(frame.data)))
        if frame.event == "done":
            return self._done(AskResponse.model_validate_json(frame.data))
        if frame.event == "error":
            return self.fail(Refusal.model_validate_json(frame.data).detail, status=422)
        return WAITING

    def end(self) -> bytes:
        """What is left to say when the answerer says no more."""
        return b"" if self.over else self.fail("the answer broke off before its end; ask again")

    def fail(self, detail: str = INTERNAL, status: int = 500) -> bytes:
        """An error, which a client raises; no `[DONE]`, as it was not."""
        self.over = True
        _, body = error_of({"status": status, "detail": detail})
        return b"data: " + body.model_dump_json().encode() + b"\n\n"

    def _done(self, answer: AskResponse) -> bytes:
        self.over = True
        text = with_notes(answer)
        written = self._text(self._transcript.whole(text))
        written += self._chunk(Delta(), finish_reason="stop", cairn=Evidence.of(self._question, answer))
        if self._include_usage:
            usage = usage_of(self._prompt_tokens, text)
            written += self._written(Chunk(id=self._id, created=self._created, choices=[], usage=usage))
        return written + END

    def _text(self, text: str) -> bytes:
        return self._chunk(Delta(content=text)) if text else WAITING

    def _chunk(
        self, delta: Delta, *, finish_reason: Literal["stop"] | None = None, cairn: Evidence | None = None
    ) -> bytes:
        choice = ChunkChoice(delta=delta, finish_reason=finish_reason)
        return self._written(Chunk(id=self._id, created=self._created, choices=[choice], cairn=cairn))

    def _written(self, chunk: Chunk) -> bytes:
        body = chunk.model_dump(mode="json")
        if not self._include_usage:
            del body["usage"]
        if chunk.cairn is None:
            del body["cairn"]
        for choice in body["choices"]:
            choice["delta"] = {name: value for name, value in choice["delta"].items() if value is not None}
        return b"data: " + orjson.dumps(body) + b"\n\n"
