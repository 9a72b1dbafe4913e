"""What a model thinks aloud is not its answer: a refusal or a claim that it only considers there must not count.

Servers that know their model put its thoughts into a member of their own (`reasoning_content`, `reasoning`), which is
never read. Others leave them in the text, between the tags that the model was trained on.
"""

from __future__ import annotations

import re
from typing import Protocol

_TAGS = {
    "<think>": "</think>",  # DeepSeek, Qwen, MiniMax, ERNIE, OLMo, GLM ...
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",  # Gemini
    "<reasoning>": "</reasoning>",
    "<seed:think>": "</seed:think>",  # Seed-OSS
    "[THINK]": "[/THINK]",  # Magistral
    "◁think▷": "◁/think▷",  # Kimi
}
_CLOSING = frozenset(tag.casefold() for tag in _TAGS.values())
_TAG = re.compile("|".join(map(re.escape, (*_TAGS, *_TAGS.values()))), re.IGNORECASE)
_LONGEST = max(map(len, (*_TAGS, *_TAGS.values())))


class Listener(Protocol):
    """Hears what is said aloud."""

    def restart(self) -> None:
        """What was said so far is void."""
        ...

    def feed(self, text: str) -> bool:
        """The next piece. False: enough."""
        ...


class Spoken:
    """Passes on what a model says and keeps back what it thinks, whatever pieces the text comes in.

    A thought that nobody ends reaches to the end of the text. One that ends without having begun (chat templates put
    the opening tag into the prompt) began with the text, so all that was passed on is taken back. Whoever knows that
    beforehand says `thinking`, and nothing is passed on before the thought has ended; if it never does, `finish` passes
    on everything.
    """

    def __init__(self, listener: Listener, *, thinking: bool = False) -> None:
        self._listener = listener
        self._held = ""
        self._text: list[str] = []
        self._doubted: list[str] = []
        """What counts as a thought only because it was expected to be one."""
        self._expected = self._thinking = thinking
        self.began_unopened = False
        """There was a thought whose beginning was not told."""

    @property
    def text(self) -> str:
        """All that was said aloud so far."""
        return "".join(self._text)

    def feed(self, piece: str) -> bool:
        """The next piece of the text; False when the listener has heard enough."""
        self._held += piece
        going_on = True
        done = 0
        for tag in _TAG.finditer(self._held):
            going_on = self._pass(self._held[done : tag.start()]) and going_on
            done = tag.end()
            self._turn(opens=tag[0].casefold() not in _CLOSING)
        rest = self._held[done:]
        keep = _begun_tag(rest)
        self._held = rest[len(rest) - keep :]
        return self._pass(rest[: len(rest) - keep]) and going_on

    def finish(self) -> None:
        """The text is at its end."""
        self._pass(self._held)
        self._held = ""
        if self._expected:
            self._expected = self._thinking = False
            self._pass("".join(self._doubted))

    def _turn(self, *, opens: bool) -> None:
        if not opens and (self._expected or not self._thinking):
            self.began_unopened = True
            if self._text:
                self._text.clear()
                self._listener.restart()
        self._expected = False
        self._doubted.clear()
        self._thinking = opens

    def _pass(self, text: str) -> bool:
        if self._expected:
            self._doubted.append(text)
        elif text and not self._thinking:
            self._text.append(text)
            return self._listener.feed(text)
        return True


def _begun_tag(text: str) -> int:
    """How many characters at the end may be the beginning of a tag."""
    tail = text[-(_LONGEST - 1) :].casefold()
    for start in range(len(tail)):
        rest = tail[start:]
        if any(tag.casefold().startswith(rest) for tag in (*_TAGS, *_TAGS.values())):
            return len(rest)
    return 0
