"""A conversation as one question: its last user message, with what that message refers back to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from cairn_shared.errors import InvalidInput

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]

_REFERENCES = frozenset(("it", "its", "this", "these", "those", "they", "them", "same", "again", "instead", "above"))
_OPENERS = frozenset(("and", "but", "so", "or", "also", "then", "ok", "okay", "yes", "no", "that", "still"))
_FILLERS = frozenset(
    (
        "why",
        "how",
        "what",
        "when",
        "where",
        "not",
        "more",
        "details",
        "explain",
        "please",
        "continue",
        "next",
        "step",
        "do",
    )
)
_WORD = re.compile(r"[\w'-]+")


class ChatMessage(BaseModel):
    """One message. Only text is understood; other members are ignored."""

    role: Role
    content: Annotated[
        str | list[dict[str, Any]] | None, Field(description="Text, or parts of the type `text`.", union_mode="smart")
    ] = None


@dataclass(frozen=True)
class Question:
    """What is asked; `field` names the message that it comes from."""

    text: str
    field: str


@dataclass(frozen=True)
class ContextPolicy:
    """When a message needs those before it.

    A message of up to `words` words that points back ("and on the replica?", "why?") is a follow-up. The last
    message before it that stands for itself goes in front, cut to `characters`. Everything else in the conversation
    would only blur the search.
    """

    words: int = 12
    characters: int = 600


def question_of(messages: Sequence[ChatMessage], policy: ContextPolicy = ContextPolicy()) -> Question:
    """The question that a conversation ends with. System messages are not obeyed: runbooks alone decide.

    Raises:
        InvalidInput: there is no user message, or the last has no text or something else than text.
    """
    asked = [(number, message) for number, message in enumerate(messages) if message.role == "user"]
    if not asked:
        raise InvalidInput("messages: there is no message with the role `user`", field="messages")
    number, last = asked[-1]
    field = f"messages.{number}.content"
    text = _text(last, field).strip()
    if not text:
        raise InvalidInput(f"{field}: there is no question", field=field)
    if not is_follow_up(text, policy):
        return Question(text, field)
    for _, earlier in reversed(asked[:-1]):
        said = plain_text(earlier).strip()
        if said and not is_follow_up(said, policy):
            return Question(f"{said[: policy.characters]}\n{text}", field)
    return Question(text, field)


def is_follow_up(text: str, policy: ContextPolicy = ContextPolicy()) -> bool:
    """Whether `text` can only be understood after what was said before."""
    words = [word.lower() for word in _WORD.findall(text[:1000])]
    if not words or len(words) > policy.words:
        return False
    if words[0] in _OPENERS or not _REFERENCES.isdisjoint(words):
        return True
    return all(word in _FILLERS or word.isdecimal() for word in words)


def plain_text(message: ChatMessage) -> str:
    """The text of a message, whatever else it holds."""
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    return "\n".join(part["text"] for part in message.content if isinstance(part.get("text"), str))


def _text(message: ChatMessage, field: str) -> str:
    if isinstance(message.content, list):
        for number, part in enumerate(message.content):
            if part.get("type") != "text" or not isinstance(part.get("text"), str):
                at = f"{field}.{number}"
                raise InvalidInput(f"{at}: only parts of the type `text` are understood", field=at)
    return plain_text(message)
