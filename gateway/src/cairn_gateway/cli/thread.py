"""What was asked last and what the answer rested on, so that the next question can follow it.

Kept for the user alone (mode 600, in a folder of mode 700): a question may hold what was pasted at 3 a.m.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

FILE = "last-answer.json"
MAX_QUESTION = 2000
MAX_CITED = 20
MAX_STEPS = 400
MAX_BYTES = 256 * 1024


@dataclass(frozen=True)
class Thread:
    """The question that began it, and what the last answer cited: `context` of the next one, as it is sent."""

    question: str
    cited: tuple[Json, ...]
    to_choose: bool = False
    """The answer was a choice between the runbooks in `cited`, in this order."""

    def chosen(self, text: str) -> str | None:
        """The id of the runbook whose number in a choice `text` is."""
        if not (self.to_choose and text.isdecimal() and 0 < int(text) <= len(self.cited)):
            return None
        return str(self.cited[int(text) - 1]["runbook_id"])

    def context(self) -> Json:
        """For the body of `POST /ask`."""
        return {"question": self.question, "cited": list(self.cited)}

    @classmethod
    def after(cls, body: Mapping[str, Any], answer: Mapping[str, Any]) -> Thread:
        """The thread once `answer` to `body` is on the screen. A question that follows another keeps that one's words:
        its own ("what if that fails?") would find nothing. A refusal leaves on the screen what was there.
        """
        earlier = body.get("context") or {}
        steps: dict[str, list[int]] = {choice["runbook_id"]: [] for choice in answer.get("choices", [])}
        for source in answer.get("sources", []):
            if source.get("cited") and source.get("kind", "runbook") == "runbook":
                steps.setdefault(source["runbook_id"], []).append(source["step"])
        if earlier and not steps:
            return cls(earlier["question"], tuple(earlier["cited"]))
        question = earlier["question"] if earlier and answer.get("follows") else body["question"]
        cited = [{"runbook_id": runbook, "steps": numbers[:MAX_STEPS]} for runbook, numbers in steps.items()]
        return cls(question.strip()[:MAX_QUESTION].strip(), tuple(cited[:MAX_CITED]), bool(answer.get("choices")))


def folder() -> Path:
    """Where this user's state is kept; made if it is not there."""
    from platformdirs import user_state_path

    path = user_state_path("cairn", appauthor=False)
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def remember(thread: Thread, url: str) -> None:
    """Keep it until the next answer. A disk that is full or closed to us costs the thread, not the answer."""
    with contextlib.suppress(OSError):
        file = folder() / FILE
        fresh = file.with_name(f"{FILE}.{os.getpid()}")
        with open(fresh, "w", encoding="utf-8", opener=_private) as stream:
            json.dump({"url": url, **thread.context()}, stream)
        fresh.replace(file)


def recall(url: str) -> Thread | None:
    """The thread of the last answer from the Cairn at `url`, if there is one."""
    try:
        with (folder() / FILE).open("rb") as stream:
            kept = json.loads(stream.read(MAX_BYTES))
        if kept["url"] != url:
            return None
        return Thread(str(kept["question"]), tuple(kept["cited"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
