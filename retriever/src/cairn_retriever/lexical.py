"""BM25 over the lexemes of PostgreSQL's full text, with the corpus statistics of runbooks and events apart.

Apart, because a flood of alerts about crash-looping pods must not make "crash loop" a common word in the ranking of
the runbooks that help with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cairn_retriever.model import RUNBOOK, Candidate, Lexicon, WeightedLexeme, WordChoice
from cairn_retriever.policy import CandidatePolicy, LexicalPolicy


def idf(chunks: int, frequency: int) -> float:
    """Inverse document frequency as in Lucene's BM25: never negative."""
    return math.log(1.0 + (max(chunks, frequency) - frequency + 0.5) / (frequency + 0.5))


def weigh(lexemes: Sequence[str], runbooks: Lexicon, events: Lexicon, limit: int) -> list[WeightedLexeme]:
    """The `limit` rarest lexemes of a query, with their weights, rarest among runbooks first."""
    weighted = [
        WeightedLexeme(
            lexeme,
            idf(runbooks.chunks, runbooks.frequency(lexeme)),
            idf(events.chunks, events.frequency(lexeme)),
        )
        for lexeme in lexemes
    ]
    known = [one for one in weighted if runbooks.frequency(one.lexeme) or events.frequency(one.lexeme)]
    unknown = [one for one in weighted if not (runbooks.frequency(one.lexeme) or events.frequency(one.lexeme))]

    def rarest(one: WeightedLexeme) -> tuple[float, str]:
        return -max(one.runbook_idf, one.event_idf), one.lexeme

    return (sorted(known, key=rarest) + sorted(unknown, key=rarest))[:limit]


def selecting(
    weighted: Sequence[WeightedLexeme], kind: str, lexicon: Lexicon, policy: CandidatePolicy
) -> list[WordChoice]:
    """The lexemes that select candidates among runbooks or events, with their weights.

    Common ones are dropped where rarer ones remain, and once the rows to visit exceed the budget: what they alone
    would find could not rank high, and they still count in the score of what is found. One that the statistics do not
    know is looked up all the same: it may have come a moment ago.
    """
    rising = sorted((lexicon.frequency(one.lexeme), one.lexeme, one.idf(kind)) for one in weighted)
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

    def parts(self, candidate: Candidate) -> tuple[float, ...]:
        """What each lexeme of the query adds to the score of the candidate's chunk; 0 where it does not occur."""
        lexicon = self.runbooks if candidate.kind == RUNBOOK else self.events
        average = lexicon.average_length or 1.0
        saturation = self.policy.k1 * (1.0 - self.policy.b + self.policy.b * candidate.length / average)
        return tuple(
            one.idf(candidate.kind) * frequency * (self.policy.k1 + 1.0) / (frequency + saturation)
            if frequency
            else 0.0
            for one, frequency in zip(self.lexemes, candidate.frequencies, strict=True)
        )

    def score(self, candidate: Candidate) -> float:
        """BM25 of the candidate's chunk."""
        return math.fsum(self.parts(candidate))

    def coverage(self, candidates: Sequence[Candidate]) -> float:
        """Share of the query, weighted by rarity, that occurs in any of `candidates` (of one kind); in [0, 1]."""
        if not self.lexemes or not candidates:
            return 0.0
        weights = [one.idf(candidates[0].kind) for one in self.lexemes]
        held = [any(one.frequencies[i] > 0 for one in candidates) for i in range(len(weights))]
        total = math.fsum(weights)
        return math.fsum(w for w, has in zip(weights, held, strict=True) if has) / total if total else 0.0
