"""The answer without a model: the matching procedure of the best runbook, step by step, with its markers."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cairn_answerer.model import Passage
from cairn_shared.narration import Narration

MAX_STEPS = 15
MAX_CHARACTERS = 12_000


@dataclass(frozen=True)
class Excerpts:
    """Passages to show, in reading order, and the numbers of the steps in between that are left out."""

    passages: tuple[Passage, ...]
    left_out: tuple[int, ...] = ()

    @property
    def step_ids(self) -> set[uuid.UUID]:
        """Of the passages shown."""
        return {passage.step_id for passage in self.passages}


def best_document(passages: Sequence[Passage]) -> Passage | None:
    """The first hit that is a step of a runbook: its document is the best runbook, by rank (not by score alone)."""
    return next((passage for passage in passages if passage.is_runbook), None)


def merge(hits: Sequence[Passage], steps: Iterable[Passage]) -> list[Passage]:
    """The steps of one document as searched, each with the score of its hit."""
    scores = {hit.step_id: hit.score for hit in hits}
    by_number = {step.number: step for step in steps}
    for hit in hits:
        # The index moved on between the two reads: what was searched is what is shown.
        by_number.setdefault(hit.number, hit)
    return [replace(step, score=scores.get(step.step_id, step.score)) for _, step in sorted(by_number.items())]


def procedure(steps: Sequence[Passage]) -> Excerpts:
    """The part of one runbook that answers: its matching run of numbered steps, and the prose that was hit.

    `steps` are all steps of the document in order; those that the search found have a score above 0. A runbook
    whose sections hold one step each (Meaning, Diagnosis, Mitigation) is shown whole when it is short enough.
    """
    if not steps:
        return Excerpts(())
    hits = [step for step in steps if step.score > 0]
    if not hits:
        hits = list(steps[:1])
    runs = _runs(steps)
    wanted: list[Passage]
    if runs:
        chosen = max(runs, key=lambda group: (max(step.score for step in group), len(group)))
        wanted = [*chosen, *hits]
    else:
        wanted = list(steps)
    best = max(hits, key=lambda step: step.score)
    return _within_budget(list({step.number: step for step in wanted}.values()), best)


def numbered_run(steps: Sequence[Passage]) -> list[Passage]:
    """The first procedure of a runbook: the first section of several steps; empty where there is none."""
    return next(iter(_runs(steps)), [])


def _runs(steps: Sequence[Passage]) -> list[list[Passage]]:
    groups: dict[str, list[Passage]] = defaultdict(list)
    for step in steps:
        groups[step.section].append(step)
    return [group for group in groups.values() if len(group) > 1]


def _within_budget(wanted: Sequence[Passage], best: Passage) -> Excerpts:
    """Hits first, then what is nearest to the best hit, until a reader has enough."""
    order = sorted(wanted, key=lambda step: (step.score <= 0, abs(step.number - best.number), step.number))
    taken: list[Passage] = []
    characters = 0
    for step in order:
        if len(taken) >= MAX_STEPS or (taken and characters + len(step.text) > MAX_CHARACTERS):
            continue
        taken.append(step)
        characters += len(step.text)
    taken.sort(key=lambda step: step.number)
    numbers = {step.number for step in taken}
    missing = tuple(sorted(step.number for step in wanted if step.number not in numbers))
    return Excerpts(passages=tuple(taken), left_out=missing)


MAX_EVENTS = 5


def events(passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """The events to show, best first: those that hold a name of the question, where any does."""
    found = [passage for passage in passages if not passage.is_runbook]
    return tuple([passage for passage in found if passage.named] or found)[:MAX_EVENTS]


def render(excerpts: Excerpts, reported: Sequence[Passage] = (), *, events_first: bool = False) -> str:
    """Plain Markdown: each passage under its marker, with its section where a new one begins.

    Events (`reported`) are quotations, each with who, when and where.
    """
    halves = [_procedure(excerpts), _reports(reported)]
    return "\n\n".join(filter(None, reversed(halves) if events_first else halves))


def _reports(reported: Sequence[Passage]) -> str:
    narration = Narration()
    return "".join(
        narration.add(one.text.strip(), origin="event", marker=one.marker, byline=one.byline) for one in reported
    )


def _procedure(excerpts: Excerpts) -> str:
    parts: list[str] = []
    before: tuple[uuid.UUID, str] | None = None
    for passage in excerpts.passages:
        here = (passage.document_id, passage.section)
        section = f" ({passage.section})" if passage.section and here != before else ""
        parts.append(f"**{passage.marker}**{section}\n\n{passage.text.strip()}")
        before = here
    if excerpts.left_out:
        parts.append(f"Not shown here: {_ranges(excerpts.left_out)}.")
    return "\n\n".join(parts)


def _ranges(numbers: Sequence[int]) -> str:
    """[2, 3, 4, 7] as `steps 2-4, 7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"{'step' if len(numbers) == 1 else 'steps'} {words}"
