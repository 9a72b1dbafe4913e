"""An answer's parts as one Markdown text, wherever it is written: in the answer, in a streamed chat, on a terminal.

A step's words stand below its marker and its place. What events report comes last, as quotations. What the model says
in its own words is marked as that, line by line.
"""

from __future__ import annotations

from collections.abc import Sequence

EVENTS = "Reported by events, not by a runbook:"
MODEL = "*In the model's words:*"


class Narration:
    """Writes part after part; the texts that `add` gives make up the whole."""

    def __init__(self) -> None:
        self._marker: str | None = None
        self._begun = False
        self._events = False

    def add(
        self,
        text: str,
        *,
        origin: str,
        marker: str = "",
        byline: str = "",
        path: str | None = None,
        lines: Sequence[int] | None = None,
    ) -> str:
        """What a part adds: `text` of a runbook, an event or the model (`origin`), under `marker` where that is new.

        `byline` is an event's: who, when and where.
        """
        parts: list[str] = []
        if origin == "event" and not self._events:
            parts.append(EVENTS)
            self._events = True
        if origin == "model":
            parts.append(f"> {MODEL} {text}")
            self._marker = None
        else:
            if marker != self._marker:
                parts.append(f"**{marker}**{f' ({byline})' if byline else place(path, lines)}")
                self._marker = marker
            parts.append(quoted(text) if origin == "event" else text)
        begun, self._begun = self._begun, True
        return ("\n\n" if begun else "") + "\n\n".join(parts)


def quoted(text: str) -> str:
    """As a quotation."""
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def place(path: str | None, lines: Sequence[int] | None) -> str:
    """` (path:first-last)`, as editors open it; nothing where there is no file."""
    if not path:
        return ""
    if not lines:
        return f" ({path})"
    return f" ({path}:{lines[0]})" if lines[0] == lines[-1] else f" ({path}:{lines[0]}-{lines[-1]})"
