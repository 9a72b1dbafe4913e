"""Is a claim supported by the steps that it cites? Deterministic checks, because an engineer will paste what it says.

The rules are those of the project's research on grounded answers: whatever can be executed or measured must occur
in a cited step; a negation must not be turned round; what is left must overlap with the step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from cairn_answerer.citations import Resolver, extract, supported
from cairn_answerer.cleaning import squeezed, visible
from cairn_answerer.code import find_code, without_code
from cairn_answerer.commands import language_of
from cairn_answerer.evidence import STEP_REFERENCE, Evidence, complete, digits, quantities, whole, without_steps
from cairn_answerer.language import (
    Clause,
    clauses,
    content_stems,
    opposes,
    risky_verbs,
    spoken,
)
from cairn_answerer.model import CheckedClaim, DraftClaim, Shown
from cairn_answerer.safety import KNOWN_PROGRAMS, READ_ONLY, classify
from cairn_answerer.words import word_set
from cairn_shared.identifiers import identifiers

Fault = Literal[
    "no citation",
    "code",
    "cut command",
    "flag",
    "path",
    "link",
    "markup",
    "number",
    "identifier",
    "command",
    "negation",
    "opposite",
    "risky verb",
    "overlap",
    "event as instruction",
    "empty",
]


@dataclass(frozen=True)
class Policy:
    """How strict the softer checks are."""

    min_overlap: float = 0.5
    """Part of a claim's content stems that must occur in what it cites."""
    same_clause: float = 0.6
    """Overlap from which a clause of the claim and one of the step are about the same thing."""
    margin: float = 0.2
    """How much better a clause may fit one that says the opposite than one that agrees."""


@dataclass(frozen=True)
class Verdict:
    """A checked claim, or what is wrong with it."""

    claim: CheckedClaim | None
    fault: Fault | None = None
    detail: str = ""


class Checker:
    """Checks claims against what one request has shown. `values` are an alert's labels."""

    def __init__(self, resolver: Resolver, values: Mapping[str, str], policy: Policy = Policy()) -> None:
        self._resolver = resolver
        self._values = values
        self._policy = policy
        self._evidence: dict[tuple[str, ...], Evidence] = {}

    def check(self, draft: DraftClaim) -> Verdict:
        """The claim with its support, or the first fault found."""
        extracted = extract(visible(draft.text), self._resolver)
        text = _tidy(extracted.text)
        if not text:
            return Verdict(None, "empty")
        cited, _ = supported((*draft.references, *extracted.references), self._resolver)
        if not cited:
            return Verdict(None, "no citation")
        for fault, detail in _faults(text, cited, self._of(cited), self._policy):
            return Verdict(None, fault, detail)
        return Verdict(CheckedClaim(text=text, support=tuple(item.passage for item in cited)))

    def _of(self, cited: Sequence[Shown]) -> Evidence:
        keys = tuple(item.key for item in cited)
        if keys not in self._evidence:
            self._evidence[keys] = Evidence.of(cited, self._values)
        return self._evidence[keys]


def _faults(text: str, cited: Sequence[Shown], evidence: Evidence, policy: Policy) -> Iterator[tuple[Fault, str]]:
    prose = without_code(text)
    yield from _markup(text, prose, evidence)
    yield from _code(text, evidence)
    yield from _literals(prose, evidence)
    yield from _numbers(prose, cited, evidence)
    yield from _meaning(text, evidence, policy)


_BULLET = re.compile(r"^\s*(?:[-*+•]|\d{1,2}[.)])\s+(?=\S)")
_HEADING = re.compile(r"^#{1,6}\s+", re.MULTILINE)


def _tidy(text: str) -> str:
    return _HEADING.sub("", _BULLET.sub("", text.strip(), count=1)).strip()


_URL = re.compile(
    r"(?:\b[a-z][a-z0-9+.-]{1,20}:|(?<![:/\w]))//[^\s<>\[\]\"'`]{1,2000}|\b(?:mailto|javascript|data):\S{1,2000}",
    re.IGNORECASE,
)
_HOST = re.compile(
    r"(?<![\w./@-])(?:[a-z0-9](?:[a-z0-9-]{0,62})\.){1,8}[a-z]{2,24}(?![\w-])(?:/[^\s<>()\[\]\"'`]{0,1000})?",
    re.IGNORECASE,
)
_TAG = re.compile(r"<[/!?]?[A-Za-z][^<>]{0,500}>")
_ACTIVE = re.compile(
    r"<\s*/?\s*(?:script|img|iframe|object|embed|svg|style|link|meta|form|input|video|audio|base)\b", re.IGNORECASE
)
_LINK = re.compile(r"!?\[[^\[\]\n]{0,500}\]\([^()\n]{0,2000}\)")


def _markup(text: str, prose: str, evidence: Evidence) -> Iterator[tuple[Fault, str]]:
    """Links only when a cited runbook has them; images and active HTML never."""
    if "![" in prose or _ACTIVE.search(text):
        yield "markup", "an image or active HTML"
    for tag in _TAG.findall(prose):
        if squeezed(tag) not in evidence.squeezed:
            yield "markup", tag
    for link in _LINK.findall(prose):
        if squeezed(link) not in evidence.squeezed and link.partition("](")[2][:-1] not in evidence.raw:
            yield "link", link
    for pattern in (_URL, _HOST):
        for url in pattern.findall(prose):
            if not any(whole(form, evidence.folded) for form in _without_punctuation(url.casefold())):
                yield "link", url
    if not evidence.has_runbook and (url := _URL.search(text)):
        yield "event as instruction", url[0]


def _without_punctuation(url: str) -> Iterator[str]:
    """The forms in which an address may stand at the end of a sentence, in brackets or in emphasis."""
    yield url
    bare = url.rstrip(".,;:!?'\"")
    yield bare
    yield bare.rstrip("*_")
    if bare.count(")") > bare.count("("):
        yield bare.rstrip(")").rstrip(".,;:!?'\"")


def _code(text: str, evidence: Evidence) -> Iterator[tuple[Fault, str]]:
    for code in find_code(text):
        block = squeezed(code.text)
        lines = [block] if not code.fenced or whole(block, evidence.squeezed) else code.text.splitlines()
        for piece in filter(None, map(squeezed, lines)):
            command = language_of(piece)
            if command and not evidence.has_runbook:
                yield "event as instruction", piece
            if not whole(piece, evidence.squeezed):
                yield "code", piece
            elif command and classify(piece, command) != READ_ONLY and not complete(piece, evidence.raw):
                yield "cut command", piece


_FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*(?:=[^\s,;)`]{1,200})?")
_PATH = re.compile(r"(?<![\w/.:-])(?:~|\.{1,2})?/[\w.@%+*~-]+(?:/[\w.@%+*~-]*)*")


def _literals(prose: str, evidence: Evidence) -> Iterator[tuple[Fault, str]]:
    """Flags, paths, identifiers and commands that stand in the prose of a claim."""
    for flag in _FLAG.findall(prose):
        if not whole(squeezed(flag).rstrip("."), evidence.squeezed):
            yield "flag", flag
    for path in _PATH.findall(prose):
        bare = path.rstrip(".")
        if len(bare) > 1 and not whole(bare, evidence.squeezed) and not whole(bare + "/", evidence.squeezed):
            yield "path", path
    for name in identifiers(prose):
        if name not in evidence.identifiers and not whole(name, evidence.folded):
            yield "identifier", name
    for word, following in pairwise(prose.split()):
        if word in _UNMISTAKABLE and re.fullmatch(r"[a-z][a-z-]+", following.rstrip(".,;:")):
            pair = f"{word} {following.rstrip('.,;:')}"
            if following.rstrip(".,;:") in _SUBCOMMANDS and pair not in evidence.squeezed:
                yield "command", pair


_UNMISTAKABLE = KNOWN_PROGRAMS & word_set(
    "kubectl oc docker podman helm systemctl git redis-cli psql mysql mongosh pg_ctl etcdctl patronictl "
    "rabbitmqctl aws gcloud az terraform journalctl service apt-get yum dnf crictl nodetool ceph"
)
_SUBCOMMANDS = word_set(
    "get describe logs delete drain cordon uncordon apply create edit patch scale rollout exec rm rmi kill "
    "stop start restart reload status enable disable mask prune run pull push commit reset checkout clean "
    "revert rebase merge install upgrade uninstall rollback list inspect promote reinit failover switchover "
    "flushall flushdb shutdown destroy plan put del defrag compact"
)


def _numbers(prose: str, cited: Sequence[Shown], evidence: Evidence) -> Iterator[tuple[Fault, str]]:
    steps = {str(item.passage.number) for item in cited} | {item.passage.label for item in cited}
    for reference in STEP_REFERENCE.findall(prose):
        for number in digits(reference):
            if number not in steps and not re.search(
                rf"\bsteps?\b[^.\n]{{0,40}}\b{number}\b", evidence.raw, re.IGNORECASE
            ):
                yield "number", reference
    for number, unit in quantities(without_steps(prose)):
        known = (number, unit) in evidence.quantities if unit else number in evidence.numbers
        if not known:
            yield "number", f"{number} {unit}".strip()


def _meaning(text: str, evidence: Evidence, policy: Policy) -> Iterator[tuple[Fault, str]]:
    prose = spoken(text)
    said_clauses = list(clauses(prose))
    if any(_turned_round(clause, evidence.clauses, policy) for clause in said_clauses):
        yield "negation", ""
    if any(opposes(clause, evidence.clauses, policy.same_clause) for clause in said_clauses):
        yield "opposite", ""
    for clause in said_clauses:
        yield from _risky(clause, evidence, policy)
    said = content_stems(text)
    if said and len(said & evidence.stems) / len(said) < policy.min_overlap:
        yield "overlap", ""


def _risky(clause: Clause, evidence: Evidence, policy: Policy) -> Iterator[tuple[Fault, str]]:
    """What is hard to take back must be in a step, and so must most of what it is to be done to."""
    for group in risky_verbs(clause.all_stems):
        known = group & evidence.stems or any(re.search(rf"\b{verb}", evidence.folded) for verb in group)
        objects = clause.stems - group
        if not known or (objects and len(objects & evidence.stems) / len(objects) < policy.min_overlap):
            yield "risky verb", min(group & clause.all_stems)


def _turned_round(clause: Clause, known: Sequence[Clause], policy: Policy) -> bool:
    """The clause says no where the step says yes, or the other way round."""
    best = {True: 0.0, False: 0.0}
    for other in known:
        overlap = len(clause.stems & other.stems) / len(clause.stems)
        best[other.negated] = max(best[other.negated], overlap)
    same, opposite = best[clause.negated], best[not clause.negated]
    if opposite >= policy.same_clause and same < opposite - policy.margin:
        return True
    if clause.negated and same == 0.0:
        return True
    # `Shrink it` where the step knows the word only from `never shrink it`.
    said = {other.negated for other in known if clause.orders in other.stems} if clause.orders else set()
    return bool(said) and clause.negated not in said
