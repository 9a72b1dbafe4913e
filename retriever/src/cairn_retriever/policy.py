"""Every number that decides what is found and how it is ranked, as frozen values.

The defaults were chosen on the dev halves of the evaluation sets (`docs/retrieval.md` has the ablations).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True)
class CandidatePolicy:
    """How many candidates each source may give, and what a source may cost."""

    runbooks: int = 50
    events: int = 30
    """Chunks of one source; twice the number of results where that is more."""
    routed: int = 100
    pages: int = 32
    """Runbooks that are judged by all that they say."""
    page_chunks: int = 60
    """Chunks of one page that are read, beside those that were found."""
    page_rank: int = 1
    """What is added to a place before its reciprocal counts for a page."""
    ef_search: int = 64
    max_scan_tuples: int = 20_000
    recent_days: int = 7
    recent_rows: int = 300
    """Latest events that are compared one by one ..."""
    recent: int = 15
    """... and how many of them become candidates."""
    exact_rows: int = 3_000
    """Where filters leave at most this many events all are compared: an index scan could under-return."""
    lexemes: int = 40
    """Most lexemes of a query that are used, rarest first."""
    runbook_postings: int = 800
    event_postings: int = 400
    """Rows that a search by words may visit: common lexemes are left out once the rarer ones fill it."""
    common_share: float = 0.2
    """A lexeme in more than this share of the chunks selects no candidates while rarer ones exist."""
    phrase: int = 4
    """Lexemes in a row that make a phrase; a query of one less is one."""
    phrases: int = 48
    """Most phrases of a query that are looked for, rarest words first."""
    identifier_limit: int = 64
    """Most identifiers of a query that are looked up."""


@dataclass(frozen=True)
class LexicalPolicy:
    """BM25 (Robertson, Zaragoza 2009, doi:10.1561/1500000019) with weighted fields, as in BM25F's simple form."""

    k1: float = 0.9
    b: float = 0.4
    title: float = 3.0
    section: float = 2.0
    body: float = 1.0
    unknown: float = 0.5
    """What a word that no page has, and that names no product, weighs in what a query is about, of its rarity."""


@dataclass(frozen=True)
class FusionPolicy:
    """How the scores of the two retrievers become one."""

    alpha: float = 0.84
    """Weight of the vector score in the convex combination; the rest is BM25's."""
    rrf_k: int = 60
    seed_cosine: float = 0.7
    seed_decay_per_day: float = 0.05


@dataclass(frozen=True)
class DecayPolicy:
    """How an event ages: `1 - most * (1 - 2 ** (-age / half_life))` of its score stays. Runbooks never age.

    Age decides between events that fit about as well. It takes so little that it never speaks for one that fits less.
    """

    most: float = 0.08
    """Share of its score that age takes at the most."""
    ahead_days: float = 1.0
    """A time further in the future than this is a mistake: such an event counts as old."""
    default_half_life: float = 14.0
    half_lives: Mapping[str, float] = field(
        default_factory=lambda: MappingProxyType(
            {
                "alert": 3.0,
                "log": 3.0,
                "commit": 14.0,
                "pull_request": 14.0,
                "deployment": 14.0,
                "issue": 30.0,
                "ticket": 30.0,
                "comment": 30.0,
            }
        )
    )
    """Days by kind."""


TELLING_SECTIONS = frozenset(
    {
        "additional resources",
        "background",
        "context",
        "description",
        "escalation",
        "impact",
        "introduction",
        "links",
        "meaning",
        "notes",
        "overview",
        "references",
        "related",
        "see also",
        "summary",
        "symptoms",
        "verification",
    }
)
"""Headings, case-folded, of sections that tell about a problem rather than what to do about it."""


@dataclass(frozen=True)
class RankingPolicy:
    """How steps are ordered once they have a score."""

    by_document: bool = True
    """Rank documents by all that they say; False: by their best chunk alone (to compare)."""
    step_gap: float = 0.5
    """How much of its distance to the best step of its document a step is behind the document's own relevance."""
    telling_sections: frozenset[str] = TELLING_SECTIONS
    telling_factor: float = 0.85
    """Symptoms find the runbook, but it is the steps that help."""
    later_step: float = 0.02
    """What each earlier step takes from a step: a procedure is begun at its beginning."""
    later_steps: int = 10
    event_share: float = 0.4
    """Share of the results that events may take while there are runbooks to show, unless only events are an answer."""
    steps_per_document: int = 3
    """More steps of one runbook follow only after the other runbooks had their turn, unless the query names it."""
    naming_documents: int = 8
    naming_share: float = 0.002
    """An identifier in more documents than these (at least three) names none: it adds to the score, but no tier."""
    quoting_documents: int = 3
    """A phrase in more runbooks than these, a command line say, names none."""
    quoting_run: float = 0.9
    """Rarity, summed over phrases in a row, that a runbook must hold of the query to come first for it."""
    quoting_bonus: float = 0.4
    """Weight of the run of phrases that a runbook holds, as a share of the longest."""
    identifier_bonus: float = 0.15
    """Weight of the share, by rarity, that a step holds of the query's identifiers."""

    def naming_limit(self, chunks: int) -> int:
        """Most documents that an identifier may be in to name them, in a corpus of `chunks`."""
        return max(3, min(self.naming_documents, int(self.naming_share * chunks)))


@dataclass(frozen=True)
class ChoicePolicy:
    """When several runbooks are offered instead of one (`docs/decisions/0016-a-choice-of-runbooks.md`)."""

    near: float = 0.5
    """Probability of another, as a share of the first one's, from which the two are not told apart."""
    most: int = 4


@dataclass(frozen=True)
class GatePolicy:
    """A logistic model of there being an answer, used where `corpus_state.thresholds` has none for the fingerprint.

    Fitted for all-MiniLM-L6-v2 by `tests/eval --calibrate` on the dev halves.
    """

    intercept: float = -12.0
    cosine: float = 8.4
    coverage: float = 9.0
    gap: float = 24.2
    threshold: float = 0.41
    """Probability from which there is enough to answer from."""
    words_alone: float = 0.55
    """Coverage that is enough where there are no vectors."""
    whole: float = 0.9
    """Coverage that is enough where a name of few documents is found."""
    rival: int = 6
    """Place of the document whose cosine the first one's is compared with."""
    stranger: float = 0.3
    """Cosine that stands for a rival's where there are fewer documents than that."""


@dataclass(frozen=True)
class RetrievalPolicy:
    """All of them."""

    candidates: CandidatePolicy = CandidatePolicy()
    lexical: LexicalPolicy = LexicalPolicy()
    fusion: FusionPolicy = FusionPolicy()
    decay: DecayPolicy = DecayPolicy()
    ranking: RankingPolicy = RankingPolicy()
    choice: ChoicePolicy = ChoicePolicy()
    gate: GatePolicy = GatePolicy()
