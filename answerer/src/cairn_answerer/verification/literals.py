"""What of a claim must stand in a cited step letter by letter: code, flags, paths, links, numbers, identifiers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

from cairn_answerer.cleaning import joined, plain, squeezed
from cairn_answerer.code import Code, find_code
from cairn_answerer.commands import language_of
from cairn_answerer.model import Shown
from cairn_answerer.safety import KNOWN_PROGRAMS, READ_ONLY, classify
from cairn_answerer.verification.evidence import Evidence, complete, whole
from cairn_answerer.verification.quantities import STEP_REFERENCE, digits, quantities, without_steps
from cairn_answerer.words import word_set
from cairn_shared.identifiers import identifiers

LiteralFault = Literal[
    "code",
    "cut command",
    "flag",
    "path",
    "link",
    "markup",
    "number",
    "identifier",
    "command",
    "look-alike",
    "event as instruction",
]


def literal_faults(
    text: str, prose: str, cited: Sequence[Shown], evidence: Evidence
) -> Iterator[tuple[LiteralFault, str]]:
    """All that is not in the cited steps as it stands in the claim. `prose` is the claim without its code."""
    yield from _markup(text, prose, evidence)
    yield from _look_alikes(text, evidence)
    yield from _code(text, evidence)
    yield from _put_together(text, evidence)
    yield from _literals(prose, evidence)
    yield from _numbers(prose, cited, evidence)


def _look_alikes(text: str, evidence: Evidence) -> Iterator[tuple[LiteralFault, str]]:
    """Digits and letters of other scripts or widths, unless the step has them: `２`, `²`, `Ⅻ`, a Cyrillic `а`."""
    if text.isascii():
        return
    for character in sorted(set(text)):
        if character.isascii() or character in evidence.raw:
            continue
        if character.isnumeric() or (character.isalpha() and (plain(character).isascii() or not _is_latin(character))):
            yield "look-alike", character


def _is_latin(character: str) -> bool:
    return unicodedata.name(character, "").startswith("LATIN")


def _put_together(text: str, evidence: Evidence) -> Iterator[tuple[LiteralFault, str]]:
    """`pg_ctl`, `-D $PGDATA` and `restart` in three spans: a command of the step from which something was left out."""
    spans = [squeezed(code.text) for code in find_code(text) if not code.fenced]
    if len(spans) < 2:
        return
    for code in find_code(evidence.raw):
        for line in map(squeezed, code.text.replace("\\\n", " ").splitlines()):
            parts = [span for span in spans if span != line and whole(span, line)]
            if len(parts) < 2 or not any(line.startswith(part) for part in parts) or line in spans:
                continue
            command = language_of(line)
            if command and classify(line, command) != READ_ONLY and not _all_said(line, parts):
                yield "cut command", line


def _as_it_stands(piece: str, code: Code, evidence: Evidence) -> bool:
    """The claim is shown as the model wrote it, so a look-alike of what the step has will not do: `‑D`, `‘a’`."""
    shown = joined(code.text)
    return shown.isascii() or shown in evidence.joined or (piece in evidence.joined and piece in shown)


def _all_said(line: str, parts: Sequence[str]) -> bool:
    return set(line.split()) <= {word for part in parts for word in part.split()}


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


def _markup(text: str, prose: str, evidence: Evidence) -> Iterator[tuple[LiteralFault, str]]:
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


def _code(text: str, evidence: Evidence) -> Iterator[tuple[LiteralFault, str]]:
    for code in find_code(text):
        block = squeezed(code.text)
        lines = [block] if not code.fenced or whole(block, evidence.squeezed) else code.text.splitlines()
        for piece in filter(None, map(squeezed, lines)):
            command = language_of(piece)
            if command and not evidence.has_runbook:
                yield "event as instruction", piece
            if not whole(piece, evidence.squeezed) or not _as_it_stands(piece, code, evidence):
                yield "code", piece
            elif command and classify(piece, command) != READ_ONLY and not complete(piece, evidence.raw):
                yield "cut command", piece


_FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*(?:=[^\s,;)`]{1,200})?")
_PATH = re.compile(r"(?<![\w/.:-])(?:~|\.{1,2})?/[\w.@%+*~-]+(?:/[\w.@%+*~-]*)*")


def _literals(prose: str, evidence: Evidence) -> Iterator[tuple[LiteralFault, str]]:
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


def _numbers(prose: str, cited: Sequence[Shown], evidence: Evidence) -> Iterator[tuple[LiteralFault, str]]:
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
