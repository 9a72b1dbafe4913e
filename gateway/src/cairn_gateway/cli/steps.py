"""The parts of an answer: what is to be said of commands goes beside the step or claim, not into a second list."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

_SECTION = re.compile(r"(?: \([^\n]*\))?\s*")


@dataclass(frozen=True)
class Block:
    """A part of the answer's text, and the steps whose commands belong below it."""

    text: str
    sources: tuple[Json, ...] = ()


def blocks(answer: str, sources: Sequence[Json]) -> list[Block]:
    """`answer` cut after every cited step that stands in it as it is in the runbook. Their texts make up `answer`."""
    found: list[Block] = []
    end = 0
    for begin, stop, source in sorted(_places(answer, sources), key=lambda place: place[:2]):
        if begin < end:
            continue
        if begin > end:
            found.append(Block(answer[end:begin]))
        end = stop
        found.append(Block(answer[begin:end], (source,)))
    return [*found, Block(answer[end:])] if end < len(answer) else found


def _places(answer: str, sources: Sequence[Json]) -> Iterator[tuple[int, int, Json]]:
    for source in sources:
        content = (source.get("content") or "").strip()
        head = f"**[{source['title']}, Step {source.get('label') or source['step']}]**"
        begin = answer.find(head)
        start = answer.find(content, begin + len(head)) if begin >= 0 and content and source.get("cited") else -1
        # Between marker and text stands the section at most: else the text is that of another step.
        if start >= 0 and _SECTION.fullmatch(answer[begin + len(head) : start]):
            yield begin, start + len(content), source


def claims(told: Sequence[Json], desk: Desk) -> list[Block]:
    """The parts of an answer as it is made of them."""
    narrator = Narrator(desk)
    return [narrator.block(claim) for claim in told]


class Narrator:
    """Writes an answer part by part, as the answerer does; `desk` has the steps that it cites."""

    def __init__(self, desk: Desk) -> None:
        from cairn_shared.narration import Narration

        self._desk = desk
        self._narration = Narration()

    def block(self, claim: Json) -> Block:
        """The next part."""
        citation: Json = next(iter(claim.get("citations", [])), {})
        text = self._narration.add(
            claim["text"],
            origin=claim.get("origin", "runbook"),
            marker=citation.get("marker", ""),
            byline=citation.get("byline", ""),
            path=citation.get("path"),
            lines=citation.get("lines"),
        )
        return Block(text.lstrip("\n"), self._desk.cited(claim))


def place_of(item: Json) -> tuple[str, int]:
    """Which step a source or a citation is."""
    return item["runbook_id"], item["step"]


class Desk:
    """Steps by their citations."""

    def __init__(self, sources: Sequence[Json]) -> None:
        self._steps = {place_of(source): source for source in reversed(sources)}

    def cited(self, claim: Json) -> tuple[Json, ...]:
        """The steps that `claim` cites."""
        cited = [place_of(citation) for citation in claim.get("citations", [])]
        return tuple(self._steps[step] for step in dict.fromkeys(cited) if step in self._steps)


def notes(block: Block) -> Iterator[tuple[str, str]]:
    """Safety and text of what to say below a part."""
    from cairn_gateway import command_notes

    return command_notes.notes(block.text, block.sources)


def ranges(numbers: Sequence[int]) -> str:
    """[1, 2, 3, 7] as `1-3, 7`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
