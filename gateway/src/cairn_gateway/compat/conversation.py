"""A conversation as a question and what it comes after. Whether it is about that is found out where runbooks are
searched; here nothing is read into its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from cairn_shared.api.ask import Earlier, Seen
from cairn_shared.errors import InvalidInput

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]

MAX_EARLIER = 600
"""Characters of the question before that are looked at."""

MAX_ANSWER = 200_000
MAX_SEEN = 5
_MARKER = re.compile(r"\[((?:[^\[\]\n]|\[[^\[\]\n]*\]){1,500}), Step (\d{1,6})\]")


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
    earlier: Earlier | None = None


def question_of(messages: Sequence[ChatMessage]) -> Question:
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
    return Question(text, field, _earlier(messages[:number]))


def _earlier(messages: Sequence[ChatMessage]) -> Earlier | None:
    """What is on the screen: the runbooks that the last answer with markers cites, and the question that led there.

    That is the first one of those in a row whose answers begin with the same runbook: the others may have followed it.
    """
    turns = list(_turns(messages))
    if not turns:
        return None
    question, cited = turns[-1][0], []
    shown = [turn for turn in turns if turn[1]]
    if shown:
        cited = shown[-1][1]
        for earlier, seen in reversed(shown):
            if seen[0].title != cited[0].title:
                break
            question = earlier
    return Earlier(question=question, cited=cited)


def _turns(messages: Sequence[ChatMessage]) -> Iterator[tuple[str, list[Seen]]]:
    """Each question with what the answers below it cite, by their markers."""
    question, answers = "", ""
    for message in messages:
        said = plain_text(message).replace("\0", " ").strip()
        if message.role == "assistant":
            answers += f"\n{said}"
        elif message.role == "user" and said:
            if question:
                yield question, _seen(answers)
            question, answers = said[:MAX_EARLIER].strip(), ""
    if question:
        yield question, _seen(answers)


def _seen(answer: str) -> list[Seen]:
    """The runbooks that `answer` cites, in the order in which it names them."""
    steps: dict[str, list[int]] = {}
    for title, step in _MARKER.findall(answer[:MAX_ANSWER]):
        steps.setdefault(title, []).append(int(step))
    return [Seen(title=title, steps=list(dict.fromkeys(numbers))[:100]) for title, numbers in steps.items()][:MAX_SEEN]


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
