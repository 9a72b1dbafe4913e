"""`python tests/eval/refinements.py --questions FOLDER`: what rewriting refused questions gains, and the harm it can do.

The rewriters are scripted and stand for models: no model is asked. The *knowing* one writes the title of the page that
answers, where it is among the titles that it is shown, and else that none fits. The *liar* writes the title of the
nearest page whatever is asked: the worst that a model can do. FOLDER has `covered.jsonl` (corpus, question, path) and
`uncovered.jsonl` (question); the corpora are those of CAIRN_CORPORA, all in one index.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import httpx
from eval_index import Servers, build, read_runbooks, runbook_events, without_page
from eval_run import retriever_client
from eval_sets import corpora
from rich.console import Console
from rich.table import Table

from cairn_answerer.adapters.retriever import HttpRetriever
from cairn_answerer.gates import enough
from cairn_answerer.refine import Refinement
from cairn_answerer.refined_search import RefinedPolicy, RefinedRetriever
from cairn_shared.api.search import SearchRequest, SearchResponse
from cairn_shared.runbooks.model import Runbook

FLOORS = (0.0, 0.1, 0.2, 0.3, 1.1)
"""1.1: no question is ever rewritten."""

K = 20


@dataclass(frozen=True)
class Asked:
    """A question; the title and path of the page that answers it, None where there is none."""

    text: str
    title: str | None
    path: str | None
    group: str
    gone: str | None = None
    """The name of the page that is taken away while it is asked."""


class Knowing:
    """Scripted: a model that knows which page answers."""

    def __init__(self, title: str | None) -> None:
        self._title = title

    async def refine(self, question: str, titles: Sequence[str]) -> Refinement:
        return Refinement(self._title if self._title in titles else None)


class Liar:
    """Scripted: a model that finds that the nearest page fits, always."""

    async def refine(self, question: str, titles: Sequence[str]) -> Refinement:
        return Refinement(titles[0] if titles else None)


@dataclass
class Counts:
    """Of one group of questions, with one rewriter and floor."""

    asked: int = 0
    answered: int = 0
    first: int = 0
    among_five: int = 0

    def add(self, found: SearchResponse, path: str | None) -> None:
        pages = list(dict.fromkeys(hit.path for hit in found.results))
        self.asked += 1
        self.answered += enough(found)
        if enough(found) and path is not None:
            self.first += pages[:1] == [path]
            self.among_five += path in pages[:5]


def questions(folder: Path, books: Sequence[Runbook]) -> Iterator[Asked]:
    """Those of `folder`, and those with an answer once more with their page taken away."""
    titles = {(book.id, book.path): book.title for book in books}
    for line in (folder / "covered.jsonl").read_text().splitlines():
        row = json.loads(line)
        title = next(
            (title for (name, path), title in titles.items() if path == row["path"] and name.startswith(row["corpus"])),
            None,
        )
        one = Asked(row["question"], title, row["path"], row["style"])
        yield one
        name = PurePosixPath(row["path"]).stem.casefold()
        yield replace(one, title=None, path=None, group="page taken away", gone=name)
    for line in (folder / "uncovered.jsonl").read_text().splitlines():
        yield Asked(json.loads(line)["question"], None, None, "covered by no page")


@asynccontextmanager
async def index(asked: Asked, dsn: str) -> AsyncIterator[None]:
    """The index as it is meant for the question."""
    if asked.gone is None:
        yield
        return
    async with without_page(dsn, asked.gone):
        yield


async def measure(client: httpx.AsyncClient, dsn: str, every: Sequence[Asked]) -> dict[tuple[str, str, float], Counts]:
    """Counts by group, rewriter and floor."""
    counts: dict[tuple[str, str, float], Counts] = {}
    rewriters: dict[str, Callable[[Asked], Knowing | Liar]] = {
        "knowing": lambda one: Knowing(one.title),
        "liar": lambda _: Liar(),
    }
    for one in every:
        async with index(one, dsn):
            for name, make in rewriters.items():
                for floor in FLOORS:
                    refined = RefinedRetriever(
                        HttpRetriever(client), make(one), lambda _: None, RefinedPolicy(floor=floor)
                    )
                    found = await refined.search(SearchRequest(query=one.text, k=K), 120.0)
                    counts.setdefault((one.group, name, floor), Counts()).add(found, one.path)
    return counts


def show(console: Console, counts: dict[tuple[str, str, float], Counts]) -> None:
    """Two tables: what is gained where there is an answer, and what is answered where there is none."""
    groups = list(dict.fromkeys(group for group, _, _ in counts))
    for rewriter in ("knowing", "liar"):
        table = Table(title=f"scripted rewriter: {rewriter} (answered, page first, page among five)")
        for column in ("floor", *groups):
            table.add_column(column)
        for floor in FLOORS:
            cells = [counts[group, rewriter, floor] for group in groups]
            table.add_row(
                "never" if floor > 1 else f"{floor:.2f}",
                *(f"{one.answered}/{one.asked}, {one.first}, {one.among_five}" for one in cells),
            )
        console.print(table)


async def run(folder: Path, console: Console) -> None:
    """Index, ask, show."""
    where = corpora()
    if where is None:
        raise SystemExit("no public corpora: set CAIRN_CORPORA to their folder")
    names = sorted(path.name for path in where.iterdir() if path.is_dir())
    books = [book for name in names for book in read_runbooks(where / name, source=f"repo:{name}", prefix=f"{name}-")]
    servers = Servers()
    try:
        with console.status(f"indexing {len(books)} pages"):
            dsn = await build(servers, "refinements", runbook_events(books))
        async with retriever_client(dsn, servers.embedder) as client:
            show(console, await measure(client, dsn, list(questions(folder, books))))
    finally:
        servers.stop()


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(prog="tests/eval/refinements.py", description=__doc__)
    parser.add_argument("--questions", type=Path, required=True, help="folder of covered.jsonl and uncovered.jsonl")
    asyncio.run(run(parser.parse_args().questions, Console(width=None if sys.stdout.isatty() else 200)))
