"""Answers by selection, without servers: plans honest and lying, over the demo runbooks and every public corpus.

Each plan goes the way of a model's output: written in pieces, read, completed, put in order, told. The lies are made
mechanically: a negation taken out of a sentence, a command of one step under another, the order turned, a guard left
out, an event's unit as a step. Nothing is tuned on them; the prepared answers beside the corpora are read where they
are there, and only counted.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eval_sets import DEMO
from prometheus_client import CollectorRegistry

from cairn_answerer.bulkhead import Room
from cairn_answerer.commands import commands
from cairn_answerer.deadline import Deadline
from cairn_answerer.errors import ModelFailure
from cairn_answerer.metrics import Metrics
from cairn_answerer.model import Passage
from cairn_answerer.ports import Completion, JsonSchema, Message, Reader
from cairn_answerer.safety import READ_ONLY
from cairn_answerer.selection import Told
from cairn_answerer.units import units_of
from cairn_answerer.writing import Policy, Writer, Written
from cairn_shared.clock import SystemClock
from cairn_shared.errors import CairnError
from cairn_shared.runbooks.markdown import decode_markdown, load_runbook

Json = dict[str, Any]
MOST_STEPS = 12
"""Steps of one runbook in a plan."""

_NEGATION = re.compile(
    r"\b(?:do |does |did |is |are |can|must |should )?(?:not|never|no|n't|cannot)\b ?", re.IGNORECASE
)


@dataclass(frozen=True)
class Book:
    """A runbook as its steps are retrieved."""

    corpus: str
    title: str
    steps: tuple[Passage, ...]


@dataclass
class Tally:
    """What came of one kind of plans."""

    plans: int = 0
    failed: int = 0
    examples: list[str] = field(default_factory=list)

    def count(self, fault: str | None) -> None:
        """One more plan, and what is wrong with what was told."""
        self.plans += 1
        if fault is not None:
            self.failed += 1
            self.examples = [*self.examples, fault][:5]


def read_books(folder: Path | None) -> list[Book]:
    """The demo's runbooks, and those of every corpus in `folder`."""
    books = list(_books("demo", DEMO))
    for corpus in sorted(one for one in folder.iterdir() if one.is_dir()) if folder else ():
        books += _books(corpus.name, corpus)
    return books


def _books(corpus: str, root: Path) -> Iterator[Book]:
    for file in sorted(root.rglob("*.md")):
        path = file.relative_to(root).as_posix()
        try:
            book = load_runbook(decode_markdown(file.read_bytes()), runbook_id="x", path=path)
        except CairnError:
            continue  # pages without content
        document = uuid.uuid5(uuid.NAMESPACE_URL, f"{corpus}/{path}")
        yield Book(
            corpus,
            book.title,
            tuple(
                Passage(
                    step_id=uuid.uuid5(document, str(step.number)), document_id=document, kind="runbook",
                    runbook_id=f"{corpus}/{path}", title=book.title, number=step.number, label=step.label,
                    section=step.section, text=step.body, version=1, content_sha="", path=path,
                    lines=(step.line_start, step.line_end),
                )
                for step in book.steps
            ),
        )  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """One item of a plan: numbers of units from 1, or what a liar writes in their place."""

    step: Passage
    units: tuple[int | str, ...]
    lead: str = ""


class _Scripted:
    """A model that writes one text, in small pieces."""

    def __init__(self) -> None:
        self.text = ""

    async def complete(
        self, messages: Sequence[Message], reader: Reader, *, seconds: float, schema: JsonSchema | None = None
    ) -> Completion:
        """As a port has it."""
        reader.restart()
        for start in range(0, len(self.text), 97):
            reader.feed(self.text[start : start + 97])
        return Completion(self.text)


class Desk:
    """Writes answers of plans, as the answerer does."""

    def __init__(self) -> None:
        self._model = _Scripted()
        numbers = iter(range(10**9))
        self._writer = Writer(
            self._model,
            Metrics(CollectorRegistry()),
            choose=lambda letters: letters[(next(numbers) * 7919 + next(numbers) // 5) % len(letters)],
            nonce=lambda: "0123456789abcdef",
            policy=Policy(rounds=1, room=Room(places=1, queue=1, patience=1.0)),
            budget=10**6,
        )

    async def written(
        self, chosen: Sequence[Choice], pool: Sequence[Passage], *, question: str = "?", lead: str = ""
    ) -> Written:
        """What an engineer sees of a plan; nothing where none of it exists, as then the steps themselves are shown."""
        shown = self._writer.show(list({one.step.step_id: one.step for one in chosen}.values()))
        keys = {one.passage.step_id: one.key for one in shown}
        items = [{"step": keys[one.step.step_id], "units": list(one.units), "lead": one.lead} for one in chosen]
        self._model.text = json.dumps({"answerable": True, "lead": lead, "items": items})
        deadline = Deadline.after(SystemClock(), 60)
        try:
            return await self._writer.write(question, None, shown, pool, deadline=deadline, publish=lambda _: None)
        except ModelFailure:
            return Written()


def fault_of(told: Sequence[Told]) -> str | None:
    """What is wrong with what was told: words that are not those of the step they stand under, or steps out of order."""
    last: dict[uuid.UUID, tuple[int, int]] = {}
    events = False
    for part in told:
        passage, claim = part.passage, part.claim
        if passage is None:
            continue
        if _flat(claim.text) not in _flat(passage.text):
            return f"not in {passage.title}#{passage.number}: {claim.text[:200]}"
        if claim.origin != ("runbook" if passage.is_runbook else "event"):
            return f"{passage.kind} told as {claim.origin}"
        if passage.is_runbook and events:
            return "a runbook's words after an event's"
        events = events or not passage.is_runbook
        place = (passage.lines[0] if passage.lines else 0, passage.number)
        if passage.is_runbook and place < last.get(passage.document_id, place):
            return f"{passage.title}: step {passage.number} after a later one"
        last[passage.document_id] = place
    return None


def _flat(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().split("\n"))


def whole(told: Sequence[Told], step: Passage) -> bool:
    """The step was told as it stands in its file."""
    return "".join(_flat(part.claim.text) for part in told if part.passage is step) == _flat(step.text)


def changing(step: Passage) -> list[int]:
    """The places of the units with a command that changes state, of those that a model is shown."""
    found = []
    for place, unit in enumerate(units_of(step.text)):
        labelled, further = commands(step.text[unit.start : unit.end], {})
        if further or any(command.safety != READ_ONLY for command in labelled):
            found.append(place)
    return found


async def attacks(books: Sequence[Book]) -> dict[str, Tally]:
    """Lying plans about every runbook, by their kind."""
    desk = Desk()
    tallies: dict[str, Tally] = {
        name: Tally()
        for name in ("negation out", "command swapped", "order turned", "guard left out", "event as a step")
    }
    for book in books:
        await _negations(desk, book, tallies["negation out"])
        await _swaps(desk, book, tallies["command swapped"])
        await _turned(desk, book, tallies["order turned"])
        await _guards(desk, book, tallies["guard left out"])
        await _events(desk, book, tallies["event as a step"])
    return tallies


async def _negations(desk: Desk, book: Book, tally: Tally) -> None:
    """The lie stands where words of the model may stand: among the numbers, and as a lead."""
    for step in book.steps:
        for unit in units_of(step.text):
            sentence = " ".join(step.text[unit.start : unit.end].split())
            lie = _NEGATION.sub("", sentence, count=1)
            if unit.kind not in ("sentence", "item") or lie == sentence or lie in " ".join(step.text.split()):
                continue
            written = await desk.written([Choice(step, (lie, 1), lie)], book.steps, lead=lie)
            said = any(lie in " ".join(part.claim.text.split()) for part in written.told)
            tally.count(f"told: {lie[:200]}" if said else fault_of(written.told))


async def _swaps(desk: Desk, book: Book, tally: Tally) -> None:
    """A command of one step under another, by its number and as a lead."""
    able = [(step, places) for step in book.steps[:40] if (places := changing(step))]
    for (one, _), (other, places) in zip(able, [*able[1:], *able[:1]], strict=True):
        if one is other:
            continue
        unit = units_of(other.text)[places[0]]
        lead = " ".join(other.text[unit.start : unit.end].split())[:150]
        written = await desk.written([Choice(one, (1, places[0] + 1), lead)], book.steps)
        said = lead not in " ".join(one.text.split()) and any(part.claim.text == lead for part in written.told)
        tally.count(f"told as a lead: {lead}" if said else fault_of(written.told))


async def _turned(desk: Desk, book: Book, tally: Tally) -> None:
    steps = book.steps[:MOST_STEPS]
    if len(steps) > 1:
        written = await desk.written([Choice(step, (1,)) for step in reversed(steps)], book.steps)
        tally.count(fault_of(written.told))


async def _guards(desk: Desk, book: Book, tally: Tally) -> None:
    """The command alone: what stands around it comes with it."""
    for step in book.steps:
        for place in changing(step)[-1:]:
            told = (await desk.written([Choice(step, (place + 1,))], book.steps)).told
            if told:  # else it stands behind the cut, where no model sees it
                part = None if whole(told, step) else f"in part: {step.title}#{step.number}"
                tally.count(fault_of(told) or part)


async def _events(desk: Desk, book: Book, tally: Tally) -> None:
    """A log that says what a step says is still a log."""
    for step in book.steps[:1]:
        ids = {"step_id": uuid.uuid5(step.step_id, "log"), "document_id": uuid.uuid5(step.step_id, "logs")}
        log = replace(step, kind="log", lines=None, **ids)  # type: ignore[arg-type]
        written = await desk.written([Choice(log, (1,)), Choice(step, (1,))], book.steps)
        tally.count(fault_of(written.told))


async def prepared(books: Sequence[Book], folder: Path) -> dict[str, Tally]:
    """The prepared answers in `folder`, translated to plans: the units of the cited steps that say most of each claim."""
    desk = Desk()
    honest, lies, leads = Tally(), Tally(), Tally()
    for row in _rows(folder / "honest.jsonl"):
        chosen = _translated(books, row["claims"])
        written = await desk.written(chosen, _pool(books, chosen), question=row["question"])
        missing = [one.step.title for one in chosen if not _all_told(written.told, one)]
        degraded = f"degraded: {', '.join(written.lacks)}" if written.lacks else None
        honest.count(fault_of(written.told) or degraded or (f"left out of: {missing}" if missing else None))
    for row in _rows(folder / "lies.jsonl"):
        chosen = _translated(books, row["claims"])
        written = await desk.written(chosen, _pool(books, chosen), question=row["question"], lead=chosen[0].lead)
        alone = [
            f"a command without its step: {one.step.title}#{one.step.number}"
            for one in chosen
            if {place + 1 for place in changing(one.step)} & set(one.units) and not whole(written.told, one.step)
        ]
        lies.count(fault_of(written.told) or next(iter(alone), None))
        told = [part.claim.text for part in written.told if part.passage is None]
        leads.count(f"told as the model's words: {told[0]}" if told else None)
    return {"prepared, honest": honest, "prepared, lies": lies, "prepared, lies as leads": leads}


def _rows(file: Path) -> list[Json]:
    return [json.loads(line) for line in file.read_text().splitlines() if line.strip()]


def _translated(books: Sequence[Book], claims: Sequence[Json]) -> list[Choice]:
    """For each claim and each step that it cites the units that say it, and the claim itself as a lead."""
    return [
        Choice(step, _saying(claim["text"], step), claim["text"])
        for claim in claims
        for step in (cited(books, cite) for cite in claim["cites"])
    ]


def cited(books: Sequence[Book], cite: str) -> Passage:
    """The step of `beginning of the title#number`, as the prepared answers cite.

    Raises:
        LookupError: there is none.
    """
    title, _, number = cite.rpartition("#")
    for test in (str.startswith, str.__contains__):
        for book in books:
            if test(book.title.casefold(), title.casefold()):
                for step in book.steps:
                    if str(step.number) == number:
                        return step
    raise LookupError(cite)


def _saying(text: str, step: Passage) -> tuple[int, ...]:
    """The numbers of the units that have most of a claim's words, while the next has at least two more of them."""
    wanted = set(re.findall(r"\w+", text.casefold()))
    words = [set(re.findall(r"\w+", step.text[unit.start : unit.end].casefold())) for unit in units_of(step.text)]
    found: list[int] = []
    while True:
        best = max(range(len(words)), key=lambda place: (len(wanted & words[place]), -place))
        if len(wanted & words[best]) < (1 if not found else 2):
            return tuple(place + 1 for place in sorted(found)) or (1,)
        found.append(best)
        wanted -= words[best]


def _pool(books: Sequence[Book], chosen: Sequence[Choice]) -> list[Passage]:
    documents = {one.step.document_id for one in chosen}
    return [step for book in books for step in book.steps if step.document_id in documents]


def _all_told(told: Sequence[Told], choice: Choice) -> bool:
    step = choice.step
    said = "\n".join(_flat(part.claim.text) for part in told if part.passage is step)
    units = [units_of(step.text)[number - 1] for number in choice.units if isinstance(number, int)]
    return all(_flat(step.text[unit.start : unit.end]) in said for unit in units)


def measure(
    books: Sequence[Book], answers: Path | None, *, among: Sequence[Book] | None = None
) -> dict[str, dict[str, Tally]]:
    """Tallies by corpus and kind of lie, and of the prepared answers in `answers`, whose steps are `among` the books."""

    async def run() -> dict[str, dict[str, Tally]]:
        names = list(dict.fromkeys(book.corpus for book in books))
        found = {name: await attacks([book for book in books if book.corpus == name]) for name in names}
        if answers is not None:
            found["all"] = await prepared(among or books, answers)
        return found

    return asyncio.run(run())
