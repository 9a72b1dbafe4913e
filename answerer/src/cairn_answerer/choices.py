"""Where the evidence does not tell runbooks apart: a short choice instead of one confident procedure. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from cairn_answerer.excerpts import numbered_run
from cairn_answerer.model import Passage
from cairn_answerer.units import units_of
from cairn_shared.api.ask import Choice

CHARACTERS = 200
"""Of what a runbook is for, and of its first step."""

QUESTION = "Several runbooks fit this about as well. Which one is it?"


def choice(steps: Sequence[Passage]) -> Choice:
    """One runbook, by all of its steps in order: what it is for, and where it begins."""
    first = next(iter(numbered_run(steps)), steps[0])
    return Choice(
        runbook_id=first.runbook_id,
        title=first.title,
        about=beginning(steps[0].text),
        first_step=beginning(first.text),
        marker=first.marker,
        path=first.path,
        url=first.url,
    )


def render(choices: Sequence[Choice], question: str) -> str:
    """As Markdown, with the command that asks for each."""
    asked = " ".join(question.split()).replace('"', "'")[:80]
    return "\n\n".join([QUESTION, *(_item(number, one, asked) for number, one in enumerate(choices, 1))])


def _item(number: int, one: Choice, asked: str) -> str:
    lines = [f"{number}. **{one.title}**"]
    if one.about != one.first_step:
        lines.append(f"   {one.about}")
    lines.append(f"   First: {one.first_step} {one.marker}")
    lines.append(f'   Ask for it: `cairn ask --runbook {one.runbook_id} "{asked}"`')
    return "\n".join(lines)


def beginning(text: str) -> str:
    """The first unit of `text` (a sentence, an item, a command), on one line."""
    unit = next(iter(units_of(text)), None)
    flat = " ".join((text if unit is None else text[unit.start : unit.end]).split())
    return flat if len(flat) <= CHARACTERS else f"{flat[: CHARACTERS - 1]}…"
