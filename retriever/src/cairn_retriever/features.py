"""What speaks for a page, as numbers that any corpus has. Pure.

A page is read whole: a question's words are seldom all in one section, and the section that answers it often has none
of them. The model over these numbers is fitted by the evaluation (`page_model.py`).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np
import numpy.typing as npt

from cairn_retriever.model import Candidate, Lexicon, Phrase, WeightedLexeme
from cairn_retriever.policy import LexicalPolicy

Array = npt.NDArray[np.float64]

FEATURES = (
    "cosine",
    "cosine_mean",
    "cosine_page",
    "cosine_z",
    "cosine_place",
    "words_page",
    "words_chunk",
    "words_z",
    "words_place",
    "coverage",
    "coverage_chunk",
    "title",
    "title_asked",
    "name",
    "name_asked",
    "section",
    "quoted",
    "identifiers",
    "length",
    "late",
)
"""
cosine, cosine_mean, cosine_page: of the nearest chunk, of the three nearest, of all
words_page, words_chunk: BM25 of the whole page and of its best chunk, as shares of the most that the query could get
..._z, ..._place: the same against the other candidates, as a standard score and as 1 / rank
coverage, coverage_chunk: share, by rarity, of the query's words in the page and in one chunk of it
title, section: share, by rarity, of the query's words in its title, in one of its headings
title_asked: share, by rarity, of the title's words in the query
name, name_asked: trigrams of title or file name in the query, and the other way round (CamelCase against words)
quoted: share of the query's phrases that it holds word by word, each shared among its holders
identifiers: share, by rarity, of the query's identifiers
length: logarithm of its number of chunks; late: of the place of the nearest step
"""

EITHER_WAY = frozenset({"length", "late"})
"""Features that may speak for a page or against it; more of any other never takes a page down."""


@dataclass(frozen=True)
class Asked:
    """The question as far as the features need it."""

    text: str
    lexemes: Sequence[WeightedLexeme]
    runbooks: Lexicon
    phrases: Sequence[Phrase]
    identifier_weights: Mapping[str, float]


@dataclass(frozen=True)
class PageTable:
    """The candidate pages with what speaks for them; a row of `values` has one number for each of `FEATURES`."""

    documents: Sequence[uuid.UUID]
    values: Array
    unknown: float
    """Share, by rarity, of the question's words that no page has; of typing errors a part."""


TITLE, SECTION = 1 << 16, 1 << 8
"""How a word's occurrences in title, headings and text are told as one number (`adapters/sql.py`)."""


def page_table(candidates: Sequence[Candidate], asked: Asked, policy: LexicalPolicy) -> PageTable:
    """The pages of `candidates`, which are chunks of runbooks, in the order of their ids."""
    documents = sorted({one.document_id for one in candidates})
    place = {document: index for index, document in enumerate(documents)}
    rows = sorted(candidates, key=lambda one: (place[one.document_id], one.step_number, one.ordinal, one.chunk_id))
    pages = np.array([place[one.document_id] for one in rows], dtype=np.intp)
    starts = np.searchsorted(pages, np.arange(len(documents)))
    sizes = np.diff([*starts, len(rows)]).astype(np.float64)
    columns: dict[str, Array] = {}

    cosines = np.array([_cosine(one) for one in rows])
    ranked = np.lexsort((-cosines, pages))
    columns["cosine"] = np.maximum.reduceat(cosines, starts)
    columns["cosine_mean"] = np.array(
        [cosines[ranked[start : start + min(3, int(size))]].mean() for start, size in zip(starts, sizes, strict=True)]
    )
    columns["cosine_page"] = np.add.reduceat(cosines, starts) / sizes
    columns["late"] = np.log1p([rows[ranked[start]].step_number for start in starts])
    columns["length"] = np.log1p(sizes)

    groups = _meanings(asked.lexemes)
    weights = np.array([max(asked.lexemes[place].runbook_idf for place in group) for group in groups])
    whole_words = weights / np.array([asked.lexemes[group[0]].likeness for group in groups])
    known = np.array(
        [any(asked.runbooks.frequency(asked.lexemes[place].lexeme) for place in group) for group in groups], dtype=bool
    )
    total = float(whole_words.sum()) or 1.0
    heard = float(weights[known].sum()) or 1.0
    each = np.array([one.fields for one in rows], dtype=np.int64).reshape(len(rows), len(asked.lexemes))
    encoded = (
        np.array([each[:, group].sum(axis=1) for group in groups], dtype=np.int64).reshape(len(groups), len(rows)).T
    )
    titled, headed, said = encoded // TITLE, encoded // SECTION % SECTION, encoded % SECTION
    every = titled + headed + said
    lengths = np.array([one.length for one in rows]) / (asked.runbooks.average_length or 1.0)
    saturation = policy.k1 * (1.0 - policy.b + policy.b * lengths)
    by_chunk = (every / (every + saturation[:, None])) @ weights / heard
    columns["words_chunk"] = np.maximum.reduceat(by_chunk, starts)
    whole = np.add.reduceat(said, starts) + np.maximum.reduceat(titled + headed, starts)
    columns["words_page"] = (whole / (whole + policy.k1)) @ weights / heard
    columns["coverage"] = (whole > 0) @ weights / heard
    columns["coverage_chunk"] = np.maximum.reduceat((every > 0) @ weights, starts) / heard
    columns["title"] = np.maximum.reduceat((titled > 0) @ weights, starts) / heard
    columns["section"] = np.maximum.reduceat((headed > 0) @ weights, starts) / heard
    columns["title_asked"] = np.array([_title_asked(rows[start], asked) for start in starts])

    grams = _trigrams(asked.text)
    names = [_trigram_sets(rows[start]) for start in starts]
    columns["name"] = np.array([max((len(one & grams) / len(one) for one in sets), default=0.0) for sets in names])
    columns["name_asked"] = np.array(
        [max((len(one & grams) for one in sets), default=0) / max(len(grams), 1) for sets in names]
    )
    columns["quoted"] = _quoted(rows, starts, asked)
    held = [
        frozenset[str]().union(*(one.identifiers for one in rows[start : start + int(size)]))
        for start, size in zip(starts, sizes, strict=True)
    ]
    most = sum(asked.identifier_weights.values()) or 1.0
    columns["identifiers"] = np.array(
        [sum(asked.identifier_weights.get(one, 0.0) for one in own) / most for own in held]
    )
    for name, of in (("cosine", columns["cosine"]), ("words", columns["words_page"])):
        columns[f"{name}_z"] = (of - of.mean()) / (of.std() + 1e-3)
        columns[f"{name}_place"] = 1.0 / (1.0 + (of[None, :] > of[:, None]).sum(axis=1))
    values = np.stack([columns[name] for name in FEATURES], axis=1) if rows else np.zeros((0, len(FEATURES)))
    return PageTable(documents, values, 1.0 - float(weights[known].sum()) / total)


def _meanings(lexemes: Sequence[WeightedLexeme]) -> list[list[int]]:
    """Places of the lexemes of each meaning: spellings of one thing count once."""
    places: dict[str, list[int]] = {}
    for place, one in enumerate(lexemes):
        if one.runbook_idf > 0.0:
            places.setdefault(one.meaning, []).append(place)
    return list(places.values())


def _cosine(candidate: Candidate) -> float:
    """The better of the query's and the refined query's; the least that there is without vectors."""
    return max(
        -1.0 if candidate.cosine is None else candidate.cosine,
        -1.0 if candidate.extra_cosine is None else candidate.extra_cosine,
    )


def _title_asked(row: Candidate, asked: Asked) -> float:
    rarities = {one: asked.runbooks.rarity(one) for one in row.title_lexemes}
    total = sum(rarities.values())
    said = {one.lexeme for one in asked.lexemes}
    return sum(rarity for one, rarity in rarities.items() if one in said) / total if total else 0.0


_LETTERS = re.compile(r"[a-z0-9]+")
MOST_CHARACTERS = 400


def _trigrams(text: str) -> frozenset[str]:
    """Of the letters alone: `KubePodCrashLooping` and "pod is crash looping" have most of theirs in common."""
    joined = "".join(_LETTERS.findall(text[:MOST_CHARACTERS].casefold()))
    return frozenset(joined[i : i + 3] for i in range(len(joined) - 2))


def _trigram_sets(row: Candidate) -> list[frozenset[str]]:
    stem = PurePosixPath(row.path or "").name.partition(".")[0]
    return [grams for grams in (_trigrams(row.title), _trigrams(stem)) if grams]


def _quoted(rows: Sequence[Candidate], starts: npt.NDArray[np.intp], asked: Asked) -> Array:
    total = sum(phrase.rarity for phrase in asked.phrases)
    bounds = [*starts, len(rows)]
    held = [
        {phrase for one in rows[bounds[page] : bounds[page + 1]] for phrase in one.quoted}
        for page in range(len(starts))
    ]
    holders: dict[int, int] = {}
    for own in held:
        for phrase in own:
            holders[phrase] = holders.get(phrase, 0) + 1
    shares = [sum(asked.phrases[phrase].rarity / holders[phrase] for phrase in own) for own in held]
    return np.array(shares, dtype=np.float64) / total if total else np.zeros(len(starts))
