"""From what the model chose to what the engineer sees: completed and put in order by code, rendered verbatim. Pure.

The model can then be wrong only in what it chose, and this mends what would be dangerous:

- a unit comes with what it cannot stand without (`units.with_needs`);
- a command that changes state comes with its whole step, which warns of it, conditions and undoes it, and with the
  steps that its step names as done before;
- beside such a command in a step, a sentence comes with its whole paragraph;
- units keep the order of their step, steps of one runbook the order of the file;
- units of an event are a report, after everything that a runbook says.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cairn_answerer.commands import commands
from cairn_answerer.leads import Known, admitted
from cairn_answerer.model import Chosen, Passage
from cairn_answerer.named import named_before
from cairn_answerer.safety import READ_ONLY
from cairn_answerer.units import runs, units_of, with_needs
from cairn_shared.api.ask import Claim

NOTHING = Known()


@dataclass(frozen=True)
class Told:
    """One part of an answer, and the passage whose words it is; None for the model's own."""

    claim: Claim
    passage: Passage | None


def arranged(
    chosen: Sequence[Chosen], pool: Sequence[Passage], *, lead: str = "", known: Known = NOTHING
) -> tuple[list[Told], int]:
    """(the parts of the answer in order, how many leads were left out).

    Args:
        chosen: what the model chose, as it came.
        pool: all passages of the request: where steps that others name are found.
        lead: the model's words at the top; empty for none.
        known: what was shown and asked, to judge leads by.
    """
    entries = _in_order(_with_named([_completed(entry) for entry in _merged(chosen)], pool))
    parts: list[Told] = []
    left_out = 0
    for place, entry in enumerate([entry for entry in entries if entry.places]):
        own = _told(entry)
        text = "\n".join(part.claim.text for part in own)
        for words in ([lead] if place == 0 else []) + [entry.lead]:
            if shown := admitted(words, text, known):
                parts.append(Told(Claim(text=shown, origin="model"), None))
            left_out += bool(words) and not shown
        parts.extend(own)
    return parts, left_out


def _merged(chosen: Sequence[Chosen]) -> list[Chosen]:
    """One entry for each step, where it was chosen first, with its first lead."""
    found: dict[uuid.UUID, Chosen] = {}
    for entry in chosen:
        before = found.get(entry.passage.step_id)
        if before is not None:
            entry = replace(before, places=before.places | entry.places, lead=before.lead or entry.lead)  # noqa: PLW2901
        found[entry.passage.step_id] = entry
    return list(found.values())


def _completed(entry: Chosen) -> Chosen:
    units = units_of(entry.passage.text)
    places = with_needs(units, entry.places)
    if entry.passage.is_runbook:
        text = entry.passage.text
        changing = {place for place, unit in enumerate(units) if _changes_state(text[unit.start : unit.end])}
        if places & changing or _changes_state(_text_of(entry.passage, places)):
            places = set(range(len(units)))
        elif changing or _changes_state(text):
            blocks = {units[place].block for place in places}
            places = with_needs(units, [place for place, unit in enumerate(units) if unit.block in blocks])
    return replace(entry, places=frozenset(places))


def _text_of(passage: Passage, places: set[int]) -> str:
    return "\n\n".join(runs(passage.text, units_of(passage.text), places))


def _changes_state(text: str) -> bool:
    """There is a command in `text` that is not known to be read-only, or so many that not all are labelled."""
    labelled, further = commands(text, {})
    return further > 0 or any(command.safety != READ_ONLY for command in labelled)


def _is_whole(entry: Chosen) -> bool:
    return len(entry.places) == len(units_of(entry.passage.text))


def _with_named(entries: Sequence[Chosen], pool: Sequence[Passage]) -> list[Chosen]:
    """Steps that a step with a changing command names as done before, whole, each before the first that names it."""
    found: dict[uuid.UUID, Chosen] = {}

    def take(entry: Chosen) -> None:
        known = found.get(entry.passage.step_id)
        if known is not None and _is_whole(known):
            return
        if entry.passage.is_runbook and _is_whole(entry) and _changes_state(entry.passage.text):
            for passage in named_before(entry.passage, pool):
                take(Chosen(passage, frozenset(range(len(units_of(passage.text))))))
        places = entry.places | (known.places if known else frozenset())
        found[entry.passage.step_id] = replace(known or entry, places=places)

    for entry in entries:
        take(entry)
    return list(found.values())


def _in_order(entries: Sequence[Chosen]) -> list[Chosen]:
    """Each runbook's steps in the order of its file, in the places that the plan gave to that runbook; events last."""
    steps = [entry for entry in entries if entry.passage.is_runbook]
    by_runbook: dict[uuid.UUID, list[Chosen]] = defaultdict(list)
    for entry in steps:
        by_runbook[entry.passage.document_id].append(entry)
    queues = {document: iter(_as_in_file(members)) for document, members in by_runbook.items()}
    ordered = [next(queues[entry.passage.document_id]) for entry in steps]
    return [*ordered, *(entry for entry in entries if not entry.passage.is_runbook)]


def _as_in_file(members: Sequence[Chosen]) -> list[Chosen]:
    """Prose is numbered after the procedure though it may stand before it, so lines go first where they are known."""
    if all(entry.passage.lines for entry in members):
        return sorted(members, key=lambda entry: (entry.passage.lines or (0, 0), entry.passage.number))
    return sorted(members, key=lambda entry: entry.passage.number)


def _told(entry: Chosen) -> list[Told]:
    passage = entry.passage
    citation = passage.citation
    return [
        Told(Claim(text=text, citations=[citation], origin="runbook" if passage.is_runbook else "event"), passage)
        for text in runs(passage.text, units_of(passage.text), entry.places)
    ]
