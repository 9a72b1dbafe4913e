"""The answerer's events as chunks of a streamed completion.

What is sent cannot be taken back. Claims go out as they pass their checks; where the whole answer turns out another
one (`restart`, or excerpts after all), the stream says so and gives the whole answer. The text of a stream without
that is exactly the text of a completion.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import orjson
from pydantic import BaseModel

from cairn_gateway.command_notes import with_notes
from cairn_gateway.compat.chat import MODEL, Evidence, Usage, usage_of
from cairn_gateway.compat.errors import INTERNAL, error_of
from cairn_gateway.sse import Frame
from cairn_shared.api.ask import AskResponse, Claim, Source

END = b"data: [DONE]\n\n"
WAITING = b": waiting\n\n"
WITHDRAWN = "\n\n---\n\n**The text above is withdrawn. The answer:**\n\n"


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


class _SourcesFound(BaseModel):
    """The answerer's `sources` event."""

    sources: list[Source]


class Transcript:
    """The text of an answer, as far as it was given out."""

    def __init__(self) -> None:
        self._given = ""
        self._events: set[tuple[str, int]] = set()
        self._doubted = False

    def sources(self, sources: Iterable[Source]) -> None:
        """What the claims will rest on."""
        self._events = {(source.runbook_id, source.step) for source in sources if source.kind != "runbook"}

    def restart(self) -> None:
        """The claims so far do not count. If any was given out, the whole answer has to tell which come again."""
        self._doubted = bool(self._given)

    def claim(self, claim: Claim) -> str:
        """What a claim adds. One that rests on events alone comes at the end of an answer, so it has to wait."""
        if self._doubted or all((citation.runbook_id, citation.step) in self._events for citation in claim.citations):
            return ""
        text = paragraph(claim)
        added = f"\n\n{text}" if self._given else text
        self._given += added
        return added

    def whole(self, answer: str) -> str:
        """What is missing of the whole answer."""
        if answer.startswith(self._given):
            return answer[len(self._given) :]
        return WITHDRAWN + answer


def paragraph(claim: Claim) -> str:
    """A claim as the answerer writes it into an answer: with its markers behind it."""
    markers = " ".join(dict.fromkeys(citation.marker for citation in claim.citations))
    separator = "\n\n" if claim.text.rstrip().endswith(("```", "~~~")) else " "
    return f"{claim.text}{separator}{markers}"


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
        if frame.event == "sources":
            self._transcript.sources(_SourcesFound.model_validate_json(frame.data).sources)
        elif frame.event == "restart":
            self._transcript.restart()
        elif frame.event == "claim":
            return self._text(self._transcript.claim(Claim.model_validate_json(frame.data)))
        elif frame.event == "done":
            return self._done(AskResponse.model_validate_json(frame.data))
        elif frame.event == "error":
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
