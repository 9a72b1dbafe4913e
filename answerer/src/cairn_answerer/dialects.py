"""What an OpenAI-compatible server understands: found out from its refusals, and believed for a while only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from cairn_answerer.ports import JsonSchema, Message
from cairn_shared.clock import Clock

Format = Literal["json_schema", "json_object", "none"]


@dataclass(frozen=True)
class Dialect:
    """The optional parts of a request. Begins with everything, as OpenAI's own API has it."""

    format: Format = "json_schema"
    stream: bool = True
    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: bool = True
    system: bool = True
    """The server takes messages of the role `system`."""

    def body(
        self, messages: Sequence[Message], *, schema: JsonSchema | None, max_tokens: int, temperature: float
    ) -> dict[str, Any]:
        """The request, but for the model's name."""
        told = messages if self.system else _without_system(messages)
        body: dict[str, Any] = {
            "messages": [{"role": message.role, "content": message.content} for message in told],
            "stream": self.stream,
            self.max_tokens: max_tokens,
        }
        if self.temperature:
            body["temperature"] = temperature
        if schema is not None and self.format == "json_schema":
            answer = {"name": "answer", "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": answer}
        elif schema is not None and self.format == "json_object":
            body["response_format"] = {"type": "json_object"}
        return body

    def simpler(self, complaint: str) -> Dialect | None:
        """What to try after a refusal as wrong (400, 422) whose text is `complaint`; None when no less would help."""
        complaint = complaint.casefold()
        if "context length" in complaint or "context window" in complaint or "too many tokens" in complaint:
            return None
        if "max_completion_tokens" in complaint and self.max_tokens == "max_tokens":
            return replace(self, max_tokens="max_completion_tokens")
        if "temperature" in complaint and self.temperature:
            return replace(self, temperature=False)
        if "system" in complaint and self.system:
            return replace(self, system=False)
        if self.format != "none":
            return replace(self, format="json_object" if self.format == "json_schema" else "none")
        return self.plain()

    def plain(self) -> Dialect | None:
        """The same with nothing optional, None where it is that already."""
        plain = replace(self, format="none", stream=False, temperature=False, system=False)
        return plain if plain != self else None


def _without_system(messages: Sequence[Message]) -> list[Message]:
    """The same with what `system` says in front of the first other message."""
    rules = "\n\n".join(message.content for message in messages if message.role == "system")
    rest = [message for message in messages if message.role != "system"]
    if not rules or not rest:
        return rest or [Message("user", rules)]
    return [Message(rest[0].role, f"{rules}\n\n{rest[0].content}"), *rest[1:]]


FULL = Dialect()


@dataclass(frozen=True)
class Trust:
    """Seconds for which a simpler dialect is spoken before all is tried again: `first`, then twice as long each time
    that this is refused again, up to `longest`.
    """

    first: float = 60.0
    longest: float = 3600.0


class Experience:
    """What was learned about one server. A refusal may have been a whim, a server may be updated: so it fades."""

    def __init__(self, clock: Clock, trust: Trust = Trust()) -> None:
        self._clock = clock
        self._trust = trust
        self._learned = FULL
        self._until = 0.0
        self._seconds = trust.first
        self._suspected: Dialect | None = None
        self._plain_failed_at: float | None = None

    def dialect(self) -> Dialect:
        """What to speak now."""
        return self._learned if self._clock.monotonic() < self._until else FULL

    def simpler(self, dialect: Dialect, complaint: str) -> Dialect | None:
        """What to try after `dialect` was refused as wrong: what worked the last time, else a step less."""
        if dialect == FULL != self._learned:
            return self._learned
        return dialect.simpler(complaint)

    def plainest(self, dialect: Dialect) -> Dialect | None:
        """What to try after a failure that does not say what was wrong; None where that was in vain just now."""
        failed = self._plain_failed_at
        if failed is not None and self._clock.monotonic() - failed < self._trust.first:
            return None
        return dialect.plain()

    def plain_failed(self) -> None:
        """The server fails whatever it is asked."""
        self._plain_failed_at = self._clock.monotonic()

    def worked(self, dialect: Dialect, *, by_chance: bool = False) -> None:
        """The server understood `dialect`. After a failure that may have passed by itself that says little
        (`by_chance`): only a second time in a row counts.
        """
        if by_chance and dialect not in (self._suspected, self._learned):
            self._suspected = dialect
            return
        self._suspected = self._plain_failed_at = None
        if dialect == self.dialect():
            if dialect == FULL:
                self._learned, self._seconds = FULL, self._trust.first
            return
        if self._learned != FULL:
            self._seconds = min(self._seconds * 2, self._trust.longest)
        self._learned, self._until = dialect, self._clock.monotonic() + self._seconds
