"""The corpora that the evaluation leaves out one by one: every folder of pages beside the checkout, and the demo's.

Pages that say the same count as one: a corpus that copies another's page answers as well as that does, and where a
page is taken away its copies go with it.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from eval_sets import DEMO

from cairn_shared.errors import InvalidInput
from cairn_shared.identifiers import searchable_text
from cairn_shared.runbooks.markdown import decode_markdown, load_runbook
from cairn_shared.runbooks.model import Runbook

SHINGLE = 8
MOST_HOLDERS = 6
"""What more pages say is a house's style."""
SAME = 0.5
"""Share of the smaller page's shingles that two pages must have in common to count as one."""


@dataclass(frozen=True)
class Page:
    """One page of a corpus."""

    corpus: str
    path: str
    book: Runbook
    text: str

    @property
    def key(self) -> str:
        """What it is known by in the evaluation."""
        return f"{self.corpus}/{self.path}"

    @property
    def stem(self) -> str:
        """Its file's name, case-folded, without any extension."""
        return PurePosixPath(self.path).name.partition(".")[0].casefold()


def read_corpora(folder: Path | None) -> list[Page]:
    """The demo's pages, and those of every corpus in `folder`, in order."""
    pages = list(_pages("demo", DEMO))
    for corpus in sorted(one for one in folder.iterdir() if one.is_dir()) if folder else ():
        pages += _pages(corpus.name, corpus)
    return pages


def _pages(corpus: str, root: Path) -> Iterator[Page]:
    for file in sorted(root.rglob("*.md")):
        path = file.relative_to(root).as_posix()
        identity = re.sub(r"[^A-Za-z0-9._-]", "-", f"{corpus}-{path.removesuffix('.md')}")
        try:
            text = decode_markdown(file.read_bytes())
            book = load_runbook(text, runbook_id=identity, source=f"repo:{corpus}", path=path)
        except InvalidInput:
            continue  # pages without content
        yield Page(corpus, path, book, text)


def equals(pages: Sequence[Page]) -> dict[str, frozenset[str]]:
    """For each page the keys of all that count as it: its copies, and those with its file's name or its title."""
    parent = {page.key: page.key for page in pages}

    def root(key: str) -> str:
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    named: dict[str, str] = {}
    for page in pages:
        for name in _names(page):
            parent[root(page.key)] = root(named.setdefault(name, page.key))
    shingles = {page.key: _shingles(page.text) for page in pages}
    holders: dict[int, list[str]] = defaultdict(list)
    common: dict[tuple[str, str], int] = defaultdict(int)
    for key, held in shingles.items():
        for shingle in held:
            holders[shingle].append(key)
    rare = {shingle: keys for shingle, keys in holders.items() if len(keys) <= MOST_HOLDERS}
    for keys in rare.values():
        for one, other in itertools.combinations(keys, 2):
            common[one, other] += 1
    sizes = {key: len([one for one in held if one in rare]) for key, held in shingles.items()}
    for (one, other), number in common.items():
        if number >= max(2.0, SAME * min(sizes[one], sizes[other])):
            parent[root(one)] = root(other)
    groups: dict[str, set[str]] = defaultdict(set)
    for page in pages:
        groups[root(page.key)].add(page.key)
    return {page.key: frozenset(groups[root(page.key)]) for page in pages}


_GENERIC = frozenset({"index", "readme", "contributing", "license", "security", "template", "changelog"})


def _names(page: Page) -> Iterator[str]:
    """What names a page's subject: `KubePodCrashLooping-pod` and `KubePodCrashLooping` are one."""
    alert = re.fullmatch(r"([A-Z][a-z]+(?:[A-Z][A-Za-z0-9]+)+)(?:-[a-z]+)?", PurePosixPath(page.path).stem)
    if alert:
        yield f"alert {alert[1].casefold()}"
    title = " ".join(searchable_text(page.book.title).casefold().split())
    if page.stem.strip("_") not in _GENERIC and len(title.split()) > 1:
        yield f"title {title}"


def _shingles(text: str) -> frozenset[int]:
    """Hashes of every run of eight words, one in eight of them (by its value, so that copies keep the same ones)."""
    words = re.findall(r"[a-z0-9]+", text.casefold())
    runs = (" ".join(words[i : i + SHINGLE]) for i in range(len(words) - SHINGLE + 1))
    hashes = (int.from_bytes(hashlib.blake2b(run.encode(), digest_size=8).digest()) for run in runs)
    return frozenset(one for one in hashes if one % 8 == 0)
