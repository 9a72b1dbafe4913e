"""The evaluation from its servers to its report."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import eval_ablation
import eval_conversations as conversations
import eval_gate_measure as gates
import eval_report
from eval_gate import Case, case_of, curve, rates
from eval_index import Servers, build, corpus_runbooks, demo_runbooks, identifier_events, runbook_events
from eval_metrics import Figure, measure
from eval_run import SYSTEMS, Outcome, page_of, retriever, runbook_of
from eval_sets import (
    CHECKOUT,
    Question,
    alerts,
    corpora,
    golden,
    identifier_documents,
    identifier_questions,
    pasted,
)
from rich.console import Console

from cairn_shared.api.search import Hit
from cairn_shared.events import Event

Slices = dict[str, dict[str, Figure]]

GATE_COLUMNS = ("relevance gate", "false answers", "false refusals", "least false answers at <= 5 % refusals")

GOLDEN = "golden questions, demo runbooks"
PASTED = "pasted lines of logs, demo runbooks"
CROWDED = "golden questions, demo runbooks among both corpora"
ALERTS = "real alerts, both corpora"
ELSEWHERE = "questions asked of the other corpus"
TAKEN_AWAY = "real alerts, their page taken away"
WITHOUT_VECTORS = "all of these sets, words alone"
IDENTIFIERS = "identifier table"
SHORT = {GOLDEN: "golden", PASTED: "pasted", CROWDED: "crowded", ALERTS: "alerts"}

TARGETS: tuple[tuple[str, str, float], ...] = (
    (ALERTS, "R@5", 0.98),
    (ALERTS, "MRR", 0.95),
    (IDENTIFIERS, "R@1", 1.0),
    (GOLDEN, "R@1", 0.95),
    (GOLDEN, "step@3", 0.9),
)


@dataclass(frozen=True)
class Set:
    """Questions, the documents they are asked of, and by what a hit is known."""

    questions: list[Question]
    events: list[Event]
    key: Callable[[Hit], str]


@dataclass(frozen=True)
class Wanted:
    """What to measure beside the sets."""

    ablate: bool = False
    calibrate: bool = False
    write: str | None = None


def all_sets(console: Console) -> dict[str, Set]:
    """The sets that can be asked here: the public corpora may be missing."""
    demo = runbook_events(demo_runbooks())
    sets = {GOLDEN: Set(golden(), demo, runbook_of), PASTED: Set(pasted(), demo, runbook_of)}
    folder = corpora()
    if folder is None:
        console.print("[yellow]no public corpora: set CAIRN_CORPORA to their folder to measure real alerts[/]")
    else:
        pages = runbook_events(corpus_runbooks(folder))
        sets[CROWDED] = Set(golden(), [*demo, *pages], runbook_of)
        sets[ALERTS] = Set(alerts(folder), pages, page_of)
    sets[IDENTIFIERS] = Set(identifier_questions(), identifier_events(identifier_documents()), runbook_of)
    return sets


class Suite:
    """One evaluation."""

    def __init__(self, console: Console, folder: Path, stamp: str) -> None:
        self._console = console
        self._folder = folder
        self._stamp = stamp
        self._before = eval_report.last_run(folder)

    async def run(self, wanted: Wanted) -> eval_report.Results:
        """Measure everything that is wanted, show it and keep it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        servers = Servers()
        try:
            return await self._run(servers, wanted)
        finally:
            servers.stop()

    async def _run(self, servers: Servers, wanted: Wanted) -> eval_report.Results:
        results: eval_report.Results = {"when": self._stamp, "commit": _commit(), "sets": {}}
        sets = all_sets(self._console)
        indexes: dict[str, str] = {}
        asked: dict[str, dict[str, list[Outcome]]] = {}
        for number, (name, one) in enumerate(sets.items()):
            same = next((other for other in indexes if sets[other].events is one.events), None)
            with self._console.status(f"{name}: indexing {len(one.events)} documents"):
                indexes[name] = indexes[same] if same else await build(servers, f"set_{number}", one.events)
            results["sets"][name], asked[name] = await self._systems(servers, name, one, indexes[name])
        cases = await self._gate(servers, results, {name: one["learned"] for name, one in asked.items()}, indexes)
        alone = [case for name in cases if name in asked for case in _cases(asked[name]["keyword only"], name)]
        self._gate_alone(results, alone)
        if ALERTS in indexes:
            await self._conversations(servers, results, sets[ALERTS], indexes[ALERTS])
        if wanted.calibrate:
            await self._calibrate(results, cases, alone, indexes[GOLDEN], wanted.write)
        if wanted.ablate:
            del sets[IDENTIFIERS]
            results["ablation"] = await self._ablation(servers, sets, indexes)
        results["missed"] = missed(results)
        file = eval_report.save(self._folder, results, self._stamp)
        bars = {name: systems for name, systems in results["sets"].items() if name != IDENTIFIERS}
        gates_shown = {name: (curve(chosen), rates(chosen)) for name, chosen in cases.items()}
        eval_report.plot(file.with_suffix(".png"), bars, gates_shown)
        self._console.print(f"results: {file}\nplot: {file.with_suffix('.png')}")
        return results

    async def _systems(
        self, servers: Servers, name: str, asked_of: Set, dsn: str
    ) -> tuple[dict[str, Slices], dict[str, list[Outcome]]]:
        """Every system on one set: its metrics and its outcomes."""
        systems: dict[str, Slices] = {}
        found: dict[str, list[Outcome]] = {}
        async with retriever(dsn, servers.embedder) as asked:
            for system in SYSTEMS:
                with self._console.status(f"{name}: {system.name}"):
                    outcomes = await asked.ask_all(asked_of.questions, asked_of.key, **system.request)
                systems[system.name] = sliced(outcomes)
                found[system.name] = outcomes
        answerable = sum(question.answer is not None for question in asked_of.questions)
        before = (self._before.get("sets") or {}).get(name)
        eval_report.show_set(self._console, f"{name} ({answerable} with an answer)", systems, before)
        eval_report.show_kinds(self._console, f"{name}: learned, by kind", systems["learned"])
        return systems, found

    async def _gate(
        self,
        servers: Servers,
        results: eval_report.Results,
        shipped: Mapping[str, Sequence[Outcome]],
        indexes: Mapping[str, str],
    ) -> dict[str, list[Case]]:
        cases = {name: _cases(shipped[name], name) for name in (GOLDEN, PASTED, CROWDED, ALERTS) if name in shipped}
        if ALERTS in shipped:
            ours, theirs = ([one.question for one in shipped[name]] for name in (GOLDEN, ALERTS))
            with self._console.status(ELSEWHERE):
                cases[ELSEWHERE] = [
                    *await gates.nowhere(indexes[ALERTS], servers.embedder, ours),
                    *await gates.nowhere(indexes[GOLDEN], servers.embedder, theirs),
                ]
            with self._console.status(TAKEN_AWAY):
                removed = await gates.leave_one_out(indexes[ALERTS], servers.embedder, shipped[ALERTS])
            cases[TAKEN_AWAY] = [*(case for case in cases[ALERTS] if case.answerable), *removed]
        results["gate"], rows = gates.as_shipped(cases)
        eval_report.show_rows(self._console, "relevance gate as shipped", GATE_COLUMNS, rows)
        title = "relevance gate, test halves: false answers / false refusals by threshold"
        eval_report.show_rows(self._console, title, ("threshold", *cases), gates.by_threshold(cases))
        return cases

    def _gate_alone(self, results: eval_report.Results, alone: Sequence[Case]) -> None:
        figures, rows = gates.as_shipped({WITHOUT_VECTORS: alone})
        results["gate"] |= figures
        eval_report.show_rows(self._console, "relevance gate without vectors, as shipped", GATE_COLUMNS, rows)

    async def _conversations(self, servers: Servers, results: eval_report.Results, asked_of: Set, dsn: str) -> None:
        folder = corpora()
        assert folder is not None
        pages = {PurePosixPath(book.path or "").stem.casefold(): book for book in corpus_runbooks(folder)}
        with self._console.status("conversations"):
            async with retriever(dsn, servers.embedder) as asked:
                right = await conversations.measure(asked, list(conversations.turns(asked_of.questions, pages)))
        results["conversations"] = {kind: {"right": one, "of": all_} for kind, (one, all_) in right.items()}
        rows = [[kind, f"{one / all_:.3f}", str(all_)] for kind, (one, all_) in right.items()]
        title = "a question with another page on the screen"
        eval_report.show_rows(self._console, title, ("question", "right", "of"), rows)

    async def _calibrate(
        self, results: eval_report.Results, cases: gates.Cases, alone: Sequence[Case], dsn: str, write: str | None
    ) -> None:
        """Fit on the dev halves of what is asked in earnest; pages taken away are only measured."""
        asked = [case for name in cases if name != TAKEN_AWAY for case in gates.half_of(cases[name], "dev")]
        numbers, rows = gates.calibrate(asked, gates.half_of(alone, "dev"), cases)
        fingerprint = await gates.fingerprint_of(dsn)
        results["calibration"] = {"fingerprint": fingerprint, **numbers}
        eval_report.show_rows(self._console, f"gate fitted for {fingerprint}", ("number", "value"), rows)
        if write:
            await gates.store(write, fingerprint, numbers)
            self._console.print("thresholds stored")

    async def _ablation(
        self, servers: Servers, sets: Mapping[str, Set], indexes: Mapping[str, str]
    ) -> dict[str, dict[str, Slices]]:
        table: dict[str, dict[str, Slices]] = {}
        for number, variant in enumerate(eval_ablation.VARIANTS):
            table[variant.name] = {}
            changed: dict[str, str] = {}
            for name, one in sets.items():
                with self._console.status(f"{variant.name}: {name}"):
                    dsn = indexes[name]
                    if dsn not in changed:
                        changed[dsn] = await eval_ablation.index_of(variant, number, dsn, servers, one.events)
                    async with retriever(changed[dsn], servers.embedder, variant.policy) as asked:
                        outcomes = await asked.ask_all(one.questions, one.key, **dict(variant.request))
                table[variant.name][name] = sliced(outcomes)
        columns = [f"{SHORT[name]} {metric}" for name in sets for metric in eval_ablation.METRICS]
        rows = [
            [name, *(eval_ablation.cell(row[one]["all"], metric) for one in sets for metric in eval_ablation.METRICS)]
            for name, row in table.items()
        ]
        eval_report.show_rows(self._console, "what each part contributes", ["variant", *columns], rows)
        return table


def _cases(outcomes: Sequence[Outcome], name: str) -> list[Case]:
    """What the gate saw, without the questions that only the other documents of the set `name` answer."""
    return [case_of(one) for one in outcomes if name != CROWDED or not one.question.elsewhere]


def sliced(outcomes: Sequence[Outcome]) -> Slices:
    """Metrics of all, of both halves, and of each kind of question."""
    slices = {"all": measure(outcomes)}
    for half in gates.HALVES:
        slices[half] = measure([one for one in outcomes if one.question.half == half])
    kinds = sorted({one.question.kind for one in outcomes if one.question.answer is not None})
    if len(kinds) > 1:
        slices |= {kind: measure([one for one in outcomes if one.question.kind == kind]) for kind in kinds}
    return slices


def missed(results: eval_report.Results) -> list[str]:
    """The targets that the shipped system does not reach, in words."""
    found = []
    for name, metric, target in TARGETS:
        systems = results["sets"].get(name)
        if systems is not None and (value := systems["learned"]["all"][metric].value) < target:
            found.append(f"{name}: {metric} {value:.3f}, wanted {target:.2f}")
    return found


def _commit() -> str:
    command = ["git", "-C", str(CHECKOUT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
