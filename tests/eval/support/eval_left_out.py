"""How well pages are found on corpora that nothing was fitted on: each is left out in turn. Also fits what is shipped."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import numpy as np
from eval_cache import caching_client
from eval_corpora import Page, equals, read_corpora
from eval_evidence import Evidence, Kept, gather
from eval_index import Servers, index_events, runbook_events
from eval_made import Made, made
from eval_rank import Table, Weights, fit, place, table
from eval_sets import CHECKOUT, alerts, corpora
from eval_words import neighbours
from pydantic import SecretStr
from rich.console import Console
from rich.table import Table as Shown

from cairn_local.migrate import migrate_postgres
from cairn_retriever.features import FEATURES
from cairn_retriever.page_model import VERSION

MODEL = CHECKOUT / "retriever" / "src" / "cairn_retriever" / "page_model.json"
MODES: Mapping[str, tuple[str, ...]] = {
    "hybrid": FEATURES,
    "keyword": tuple(name for name in FEATURES if not name.startswith("cosine") and name != "late"),
    "semantic": (*(name for name in FEATURES if name.startswith("cosine")), "length", "late"),
}
"""What may be looked at; without vectors the place of the nearest step is none."""
ASKED_BY_HAND_KINDS = ("real alert", "by hand: own words", "by hand: paraphrased", "by hand: terse or pasted")
DRAWS = 1000


@dataclass(frozen=True)
class Ranks:
    """Ranks of the right page, 0 where it was not found, of the questions of one kind."""

    values: Sequence[int]

    def recall(self, k: int) -> float:
        """Share with the right page among the first `k`."""
        return float(np.mean([0 < rank <= k for rank in self.values]))

    def mrr(self) -> float:
        """Mean reciprocal rank."""
        return float(np.mean(self._reciprocal()))

    def interval(self) -> tuple[float, float]:
        """Of the mean reciprocal rank, 95 %, by the bootstrap with a fixed seed."""
        values = np.array(self._reciprocal())
        draws = np.random.default_rng(7).choice(values, (DRAWS, len(values))).mean(axis=1)
        return float(np.quantile(draws, 0.025)), float(np.quantile(draws, 0.975))

    def _reciprocal(self) -> list[float]:
        return [1.0 / rank if rank else 0.0 for rank in self.values]


async def run(console: Console, folder: Path, *, write: bool = False) -> dict[str, dict[str, list[float]]]:
    """Index every corpus, ask every question, fit without each corpus and show what becomes of its questions."""
    folder.mkdir(parents=True, exist_ok=True)
    public = corpora()
    if public is None:
        console.print("[yellow]no public corpora: set CAIRN_CORPORA to their folder to measure on them[/]")
        return {}
    pages = read_corpora(public)
    same = equals(pages)
    servers = Servers()
    try:
        tables = await _tables(console, servers, folder, pages, same, public)
    finally:
        servers.stop()
    fitted_on = [one for one in tables if one.question.kind not in ASKED_BY_HAND_KINDS]
    results = {}
    for mode in MODES:
        ranks = _left_out(fitted_on, tables, mode)
        results[mode] = _show(console, mode, ranks)
    if write:
        _write(fitted_on)
        console.print(f"written: {MODEL.relative_to(CHECKOUT)}")
    (folder / "left_out.json").write_text(json.dumps(results, indent=1))
    return results


def by_hand(pages: Sequence[Page], same: Mapping[str, frozenset[str]], public: Path) -> list[Made]:
    """Questions that nothing is ever fitted on: real alerts, and those of `eval/questions` beside the corpora."""
    stems: dict[str, list[Page]] = defaultdict(list)
    for page in pages:
        stems[page.stem.partition("-")[0]].append(page)
    found = []
    for alert in alerts(public):
        if own := stems.get(alert.id.casefold()):
            right = frozenset[str]().union(*(same[page.key] for page in own))
            found.append(Made(f"alert {alert.id}", "real alert", own[0].corpus, alert.text, right))
    keys = {page.key for page in pages}
    file = public.parent / "eval" / "questions" / "covered.jsonl"
    for number, line in enumerate(file.read_text().splitlines() if file.is_file() else ()):
        row = json.loads(line)
        key = f"{row['corpus']}/{row['path']}"
        if key in keys:
            kind = f"by hand: {row['style']}"
            found.append(Made(f"covered {number}", kind, row["corpus"], row["question"], same[key]))
    return found


async def _tables(  # noqa: PLR0917 - one call
    console: Console,
    servers: Servers,
    folder: Path,
    pages: Sequence[Page],
    same: Mapping[str, frozenset[str]],
    public: Path,
) -> list[Table]:
    dsn = servers.dsn("left_out")
    await migrate_postgres(SecretStr(dsn))
    async with caching_client(servers.embedder, folder) as http:
        with console.status(f"indexing {len(pages)} pages"):
            events = runbook_events((page.book for page in pages), of_corpus=True)
            await index_events(dsn, servers.embedder, events, http)
        questions = [*made(pages, same, await neighbours(pages, http)), *by_hand(pages, same, public)]
        kept = Kept(folder, _salt(pages))
        with console.status(f"asking {len(questions)} questions"):
            found = await gather(questions, dsn, http, kept)
    keys = await _keys(dsn, {page.book.id: page.key for page in pages})
    return [_table(one, keys) for one in found if one.candidates]


def _table(found: Evidence, keys: dict[str, str]) -> Table:
    return table(found, keys, found.question.gone)


def _salt(pages: Sequence[Page]) -> str:
    """Names what the evidence depends on: the pages and the retriever's code but for the arithmetic of features."""
    root = CHECKOUT / "retriever" / "src" / "cairn_retriever"
    code = [
        file.read_bytes() for file in sorted(root.rglob("*.py")) if file.name not in {"features.py", "page_model.py"}
    ]
    return hashlib.sha256(b"".join([*code, *(page.text.encode() for page in pages)])).hexdigest()


async def _keys(dsn: str, of_book: Mapping[str, str]) -> dict[str, str]:
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch("SELECT document_id, external_id FROM documents")
    finally:
        await connection.close()
    return {str(row["document_id"]): of_book[row["external_id"]] for row in rows}


def _left_out(fitted_on: Sequence[Table], tables: Sequence[Table], mode: str) -> dict[str, dict[str, list[int]]]:
    """Ranks by kind of question and corpus, each by weights that knew nothing of that corpus."""
    ranks: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for corpus in sorted({one.question.corpus for one in tables}):
        weights = fit([one for one in fitted_on if one.question.corpus != corpus], MODES[mode])
        for one in tables:
            if one.question.corpus == corpus:
                ranks[one.question.kind][corpus].append(place(weights.scores(one), one.right))
    return ranks


def _show(console: Console, mode: str, ranks: Mapping[str, Mapping[str, list[int]]]) -> dict[str, list[float]]:
    shown = Shown(title=f"{mode}: pages, each corpus left out of what is fitted")
    names = sorted({corpus for of_kind in ranks.values() for corpus in of_kind})
    for column in ("questions", "n", "R@1", "R@5", "MRR", "95 %", *(f"R@1 {name}" for name in names)):
        shown.add_column(column)
    figures = {}
    for kind in sorted(ranks):
        every = Ranks([rank for of_corpus in ranks[kind].values() for rank in of_corpus])
        low, high = every.interval()
        figures[kind] = [len(every.values), every.recall(1), every.recall(5), every.mrr(), low, high]
        each = [f"{Ranks(ranks[kind][name]).recall(1):.2f}" if name in ranks[kind] else "" for name in names]
        numbers = [f"{every.recall(1):.3f}", f"{every.recall(5):.3f}", f"{every.mrr():.3f}", f"{low:.3f}-{high:.3f}"]
        shown.add_row(kind, str(len(every.values)), *numbers, *each)
    console.print(shown)
    return figures


def _write(fitted_on: Sequence[Table]) -> None:
    """Fit on all corpora, and put the weights into the retriever's package."""

    def rounded(weights: Weights) -> dict[str, float]:
        return {name: round(float(value), 4) for name, value in zip(weights.names, weights.values, strict=True)}

    pages = {mode: rounded(fit(fitted_on, names)) for mode, names in MODES.items()}
    MODEL.write_text(json.dumps({"version": VERSION, "pages": pages}, indent=1) + "\n")
