"""What an OpenAI-compatible server understands: found out from its refusals, and remembered once something works."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from cairn_answerer.ports import JsonSchema

Format = Literal["json_schema", "json_object", "none"]


@dataclass(frozen=True)
class Dialect:
    """The optional parts of a request. Begins with everything, as OpenAI's own API has it."""

    format: Format = "json_schema"
    stream: bool = True
    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: bool = True

    def body(self, *, schema: JsonSchema | None, max_tokens: int, temperature: float) -> dict[str, Any]:
        """These parts of the request."""
        body: dict[str, Any] = {"stream": self.stream, self.max_tokens: max_tokens}
        if self.temperature:
            body["temperature"] = temperature
        if schema is None:
            return body
        if self.format == "json_schema":
            answer = {"name": "answer", "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": answer}
        elif self.format == "json_object":
            body["response_format"] = {"type": "json_object"}
        return body

    def simpler(self, complaint: str) -> Dialect | None:
        """What to try after a refusal whose text is `complaint`; None when no less would help."""
        complaint = complaint.casefold()
        if "context length" in complaint or "context window" in complaint or "too many tokens" in complaint:
            return None
        if "max_completion_tokens" in complaint and self.max_tokens == "max_tokens":
            return replace(self, max_tokens="max_completion_tokens")
        if "temperature" in complaint and self.temperature:
            return replace(self, temperature=False)
        if self.format == "json_schema":
            return replace(self, format="json_object")
        if self.format == "json_object":
            return replace(self, format="none")
        return replace(self, stream=False) if self.stream else None
