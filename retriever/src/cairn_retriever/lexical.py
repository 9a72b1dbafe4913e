"""BM25 over the lexemes of PostgreSQL's full text, with the corpus statistics of runbooks and events apart.

Apart, because a flood of alerts about crash-looping pods must not make "crash loop" a common word in the ranking of
the runbooks that help with it.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from cairn_retriever.model import RUNBOOK, Candidate, Lexicon, Phrase, Prepared, Tells, WeightedLexeme, WordChoice
from cairn_retriever.policy import CandidatePolicy, LexicalPolicy


def idf(chunks: int, frequency: int) -> float:
    """Inverse document frequency as in Lucene's BM25: never negative."""
    return math.log(1.0 + (max(chunks, frequency) - frequency + 0.5) / (frequency + 0.5))


SHORTEST_PHRASE = 3
WIDEST_GAP = 5
"""Words from one lexeme of a phrase to the next: more stop words than that are not said in one breath."""

_VALUE = re.compile(r".*\d.*")
"""Amounts, times, ports, hashes, hosts, tickets: they differ each time."""


def weigh(prepared: Prepared, runbooks: Lexicon, events: Lexicon, limit: int) -> list[WeightedLexeme]:
    """The `limit` rarest lexemes of a query and their other spellings, with their weights.

    Names of products come first, for the gate asks for them, then those that are known.
    """
    asked = frozenset(prepared.lexemes)
    products = frozenset(lexeme for names in prepared.products for lexeme in names)
    meanings = {lexeme: group[0] for group in prepared.spellings for lexeme in group}
    # Other names of a product only tell what a page is about.
    said = asked | meanings.keys()
    weighted = [
        WeightedLexeme(
            lexeme=lexeme,
            meaning=meanings.get(lexeme, lexeme),
            asked=lexeme in asked,
            tells=_tells(lexeme, prepared),
            runbook_idf=idf(runbooks.chunks, runbooks.frequency(lexeme)) if lexeme in said else 0.0,
            event_idf=idf(events.chunks, events.frequency(lexeme)) if lexeme in said else 0.0,
        )
        for lexeme in dict.fromkeys([*prepared.lexemes, *meanings, *products])
    ]
    said |= {one.lexeme for one in weighted}
    corrected = [_corrected(one, runbooks, events) for one in weighted]
    weighted = [one for one in corrected if one.likeness == 1.0 or one.lexeme not in said]

    def order(one: WeightedLexeme) -> tuple[bool, bool, float, str]:
        unknown = not (runbooks.frequency(one.lexeme) or events.frequency(one.lexeme))
        return one.lexeme not in products, unknown, -max(one.runbook_idf, one.event_idf), one.lexeme

    return sorted(weighted, key=order)[:limit]


def _corrected(one: WeightedLexeme, runbooks: Lexicon, events: Lexicon) -> WeightedLexeme:
    """`one`, or where nothing has it the word that it is probably a typing error of, which weighs as much less."""
    if not one.asked or runbooks.spelling is None or runbooks.frequency(one.lexeme) or events.frequency(one.lexeme):
        return one
    near = runbooks.spelling.nearest(one.lexeme)
    if near is None:
        return one
    lexeme, likeness = near
    rarity = likeness * idf(runbooks.chunks, runbooks.frequency(lexeme))
    return replace(one, lexeme=lexeme, likeness=likeness, runbook_idf=rarity)


def _tells(lexeme: str, prepared: Prepared) -> Tells:
    """A name's parts say what an unknown name is about, and an unknown number says nothing."""
    if lexeme in prepared.fillers:
        return "never"
    if any(lexeme in names for names in prepared.products):
        return "always"
    return "where known" if lexeme in prepared.joined or _VALUE.fullmatch(lexeme) else "less where unknown"


def phrases(prepared: Prepared, lexicon: Lexicon, policy: CandidatePolicy) -> list[Phrase]:
    """What of a query may stand in a runbook word by word: an error message, a title.

    Every run of `policy.phrase` lexemes that the runbooks know, one of them no filler at least; the rarest of them, in
    the order of the text. What they do not know is passed over: a name or an amount, which differs each time.
    """
    sequence = [(place, lexeme) for place, lexeme in prepared.sequence if lexicon.frequency(lexeme)]
    length = min(policy.phrase, max(len(sequence), SHORTEST_PHRASE))
    greatest = idf(lexicon.chunks, 1)
    found: dict[tuple[tuple[str, ...], tuple[int, ...]], Phrase] = {}
    for start in range(len(sequence) - length + 1):
        part = sequence[start : start + length]
        lexemes = tuple(lexeme for _, lexeme in part)
        gaps = tuple(after - before for (before, _), (after, _) in itertools.pairwise(part))
        telling = not prepared.fillers.issuperset(lexemes)
        if telling and max(gaps) <= WIDEST_GAP and min(gaps) > 0:
            rarity = sum(idf(lexicon.chunks, lexicon.frequency(one)) for one in lexemes) / length / greatest
            found.setdefault((lexemes, gaps), Phrase(lexemes, gaps, rarity if len(sequence) > length else 1.0))
    least = sorted((one.rarity for one in found.values()), reverse=True)[: policy.phrases][-1:]
    return [one for one in found.values() if one.rarity >= least[0]][: policy.phrases]


def is_code(prepared: Prepared, lexicon: Lexicon, few: int) -> bool:
    """Whether the query is one number that `few` chunks of runbooks hold at most."""
    return (
        len(prepared.lexemes) == 1
        and bool(_VALUE.fullmatch(prepared.lexemes[0]))
        and 0 < lexicon.frequency(prepared.lexemes[0]) <= few
    )


def selecting(
    weighted: Sequence[WeightedLexeme], kind: str, lexicon: Lexicon, policy: CandidatePolicy
) -> list[WordChoice]:
    """The lexemes that select candidates among runbooks or events, with their weights.

    Common ones are dropped where rarer ones remain, and once the rows to visit exceed the budget: what they alone
    would find could not rank high, and they still count in the score of what is found. One that the statistics do not
    know is looked up all the same: it may have come a moment ago.
    """
    rising = sorted((lexicon.frequency(one.lexeme), one.lexeme, one.idf(kind)) for one in weighted if one.idf(kind))
    budget = policy.runbook_postings if kind == RUNBOOK else policy.event_postings
    chosen: list[WordChoice] = []
    known = visited = 0
    for frequency, lexeme, weight in rising:
        common = frequency > policy.common_share * lexicon.chunks
        if known and (visited + frequency > budget or (common and known > 2)):
            break
        chosen.append(WordChoice(lexeme, weight))
        visited += frequency
        known += frequency > 0
    return chosen


@dataclass(frozen=True)
class Bm25:
    """Scores candidates against the query's lexemes."""

    lexemes: Sequence[WeightedLexeme]
    runbooks: Lexicon
    events: Lexicon
    policy: LexicalPolicy

    @cached_property
    def _meanings(self) -> list[list[int]]:
        """Places of the lexemes of each meaning."""
        places: dict[str, list[int]] = {}
        for place, one in enumerate(self.lexemes):
            places.setdefault(one.meaning, []).append(place)
        return list(places.values())

    @cached_property
    def _several(self) -> list[list[int]]:
        """Those with several spellings."""
        return [places for places in self._meanings if len(places) > 1]

    @cached_property
    def _subject(self) -> dict[bool, list[tuple[list[int], float]]]:
        """Of runbooks (True) and events: what the query is about, as places of one meaning and their weight."""
        return {is_runbook: self._telling(is_runbook=is_runbook) for is_runbook in (True, False)}

    def _telling(self, *, is_runbook: bool) -> list[tuple[list[int], float]]:
        lexicon = self.runbooks if is_runbook else self.events
        idfs, _ = self._halves[is_runbook]

        def weight(place: int) -> float:
            one = self.lexemes[place]
            if not one.asked or one.tells == "never":
                return 0.0
            if lexicon.frequency(one.lexeme) or one.tells == "always":
                return idfs[place]
            return 0.0 if one.tells == "where known" else self.policy.unknown * idfs[place]

        weighed = [(places, max(weight(place) for place in places)) for places in self._meanings]
        return [(places, most) for places, most in weighed if most > 0.0]

    @cached_property
    def _halves(self) -> dict[bool, tuple[list[float], float]]:
        """Of runbooks (True) and events: idf of each lexeme, and average length of a chunk."""
        return {
            True: ([one.runbook_idf for one in self.lexemes], self.runbooks.average_length or 1.0),
            False: ([one.event_idf for one in self.lexemes], self.events.average_length or 1.0),
        }

    def parts(self, candidate: Candidate) -> list[float]:
        """What each lexeme adds to the score of the candidate's chunk.

        Spellings of one thing add what the best of them does, at the place of the first, so that chunks with different
        spellings can be compared place by place.
        """
        k1, b = self.policy.k1, self.policy.b
        idfs, average = self._halves[candidate.kind == RUNBOOK]
        saturation = k1 * (1.0 - b + b * candidate.length / average)
        parts = [
            weight * frequency * (k1 + 1.0) / (frequency + saturation) if frequency else 0.0
            for weight, frequency in zip(idfs, candidate.frequencies, strict=True)
        ]
        for places in self._several:
            best = max(parts[place] for place in places)
            for place in places:
                parts[place] = 0.0
            parts[places[0]] = best
        return parts

    def score(self, candidate: Candidate) -> float:
        """BM25 of the candidate's chunk."""
        return math.fsum(self.parts(candidate))

    def hold(self, candidates: Sequence[Candidate], lexemes: Collection[str]) -> bool:
        """Whether any of these lexemes of the query occurs in any of `candidates`."""
        places = [place for place, one in enumerate(self.lexemes) if one.lexeme in lexemes]
        return any(one.frequencies[place] for place in places for one in candidates)

    def coverage(self, candidates: Sequence[Candidate]) -> float:
        """Share of what the query is about, by rarity, that occurs in any of `candidates` (of one half); in [0, 1]."""
        subject = self._subject[candidates[0].kind == RUNBOOK] if candidates else []
        held = [
            weight
            for places, weight in subject
            if any(one.frequencies[place] for place in places for one in candidates)
        ]
        return sum(held) / total if (total := sum(weight for _, weight in subject)) else 0.0
