"""Plain English as far as checking a claim needs it: content stems, clauses, negation, opposites, risky verbs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cairn_answerer.code import find_code
from cairn_answerer.words import word_set

_WORD = re.compile(r"[a-z][a-z']*|\d+")
_CLAUSE_END = re.compile(
    r"[!?;()\n]|[.:,](?!\w)|\s[-\u2013\u2014]\s"
    r"|\b(?:and|but|because|since|so that|while|whereas|which|otherwise|although|then|if|when|until|once)\b"
)

_STOP: Final = word_set(
    "a an the this that these those it its is are was were be been being am do does did done doing have has "
    "had having will would shall should can could may might must need needs to of in on at by for with from "
    "into onto over under than then as if when while where which who whom whose what how why there here and "
    "or but so because since also too very just only still yet both each every any all some more most other "
    "such own same you your yours we our us they their them i me my he she his her up down out off again once "
    "about between through during before after above below not no nor never without please use using used run "
    "runs running make makes made sure ensure get gets let lets see go goes going want like e g ie eg etc via "
    "per step steps"
)
_IRREGULAR: Final = dict(
    pair.split("=")
    for pair in [
        "ran=run",
        "lost=lose",
        "kept=keep",
        "sent=send",
        "found=find",
        "held=hold",
        "wrote=write",
        "written=write",
        "began=begin",
        "broken=break",
        "broke=break",
        "took=take",
        "taken=take",
        "grew=grow",
        "fell=fall",
        "fallen=fall",
        "behind=behind",
        "indices=index",
        "indexes=index",
        "replicas=replica",
        "queries=query",
        "processes=process",
        "status=status",
        "access=access",
        "process=process",
    ]
)
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nothing|neither|nor|without|avoid(?:s|ed|ing)?|cannot|instead of|rather than|refrain\w*"
    r"|forbid\w*"
    r"|refuse[sd]?|unless|n't|\w+n't|dont|cant|wont|shouldnt|mustnt|isnt|arent|doesnt)\b"
)
_BEFORE_ORDER: Final = word_set(
    "do not never always please then first now next just only you must should can may should also finally again"
)
_NEGATING: Final = word_set("do does did not no never don't doesn't please the a an it this that is are be always just")
_MASKED: Final = word_set("no not never without unless and but or since then while on off up down")
_RISKY: Final[tuple[tuple[set[str], set[str]], ...]] = (
    ({"delete", "remove", "drop", "erase", "wipe", "purge"}, set()),
    ({"restart", "reboot", "bounce", "recreate"}, {"recycle"}),
    ({"kill", "terminate", "abort"}, {"end"}),
    ({"truncate"}, set()),
    ({"stop", "shutdown", "halt"}, {"shut"}),
    ({"disable", "deactivate"}, {"off"}),
    ({"drain", "cordon", "evict"}, set()),
    ({"failover", "promote", "switchover"}, set()),
    ({"reformat", "format"}, set()),
    ({"rollback", "revert", "undo"}, {"roll"}),
    ({"reset"}, set()),
    ({"flush"}, set()),
    ({"revoke"}, set()),
    ({"overwrite", "replace"}, set()),
    ({"reinstall", "rebuild", "reinitialize"}, {"resync"}),
    ({"unplug", "disconnect", "detach"}, set()),
    ({"bypass", "skip"}, {"ignore"}),
    ({"uninstall", "destroy"}, set()),
)
"""Verbs for what is hard to take back, and the words that may stand for them in a step."""

_OPPOSITES: Final = tuple(
    tuple(pair.split("/"))
    for pair in [
        "start/stop",
        "enable/disable",
        "before/after",
        "increase/decrease",
        "raise/lower",
        "grow/shrink",
        "add/remove",
        "open/close",
        "pause/resume",
        "above/below",
        "over/under",
        "more/less",
        "maximum/minimum",
        "first/last",
        "always/never",
        "attach/detach",
        "lock/unlock",
        "grant/revoke",
        "allow/deny",
        "accept/reject",
        "upgrade/downgrade",
        "promote/demote",
        "primary/replica",
        "primary/standby",
        "primary/secondary",
        "master/replica",
        "leader/follower",
        "source/target",
        "up/down",
        "on/off",
        "safe/unsafe",
        "safe/dangerous",
        "read/write",
        "inside/outside",
        "cordon/uncordon",
        "mount/unmount",
        "healthy/unhealthy",
        "online/offline",
        "greater/smaller",
        "higher/lower",
        "faster/slower",
        "oldest/newest",
        "synchronous/asynchronous",
        "with/without",
    ]
)
NUMBER_WORDS: Final = dict(
    pair.split("=")
    for pair in [
        "two=2",
        "three=3",
        "four=4",
        "five=5",
        "six=6",
        "seven=7",
        "eight=8",
        "nine=9",
        "ten=10",
        "eleven=11",
        "twelve=12",
        "fifteen=15",
        "twenty=20",
        "thirty=30",
        "forty=40",
        "fifty=50",
        "sixty=60",
        "ninety=90",
        "hundred=100",
        "thousand=1000",
        "twice=2",
    ]
)


@dataclass(frozen=True)
class Clause:
    """A part of a sentence: what it is about, and whether it says no."""

    stems: frozenset[str]
    negated: bool
    all_stems: frozenset[str]
    """Those of the little words too: `before` and `on` matter where their opposite stands."""
    orders: str | None = None
    """The stem of the verb with which it begins, where it reads like an order: `drop the slot`, `do not drop it`."""


def stem(word: str) -> str:
    """A crude stem: enough that `restarting`, `restarted` and `restarts` meet."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    for suffix, keep in (("ies", 3), ("ing", 4), ("ied", 3), ("ed", 4), ("es", 4), ("ly", 4), ("s", 3)):
        if word.endswith(suffix) and len(word) - len(suffix) >= keep - 1 and not word.endswith("ss"):
            root = word[: -len(suffix)] + ("y" if suffix in ("ies", "ied") else "")
            if len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lsz":
                root = root[:-1]
            return root.rstrip("e") if len(root) > 3 else root
    return word.rstrip("e") if len(word) > 4 else word


_NEGATING_STEMS: Final = frozenset(stem(word) for word in _NEGATING)
_RISKY_STEMS: Final = [
    ({stem(word) for word in verbs}, {stem(word) for word in (*verbs, *others)}) for verbs, others in _RISKY
]


def words(text: str) -> list[str]:
    """Lower-case words and numbers of `text`."""
    return _WORD.findall(text.lower())


def content_stems(text: str) -> set[str]:
    """Stems of the words that carry meaning; numbers are checked elsewhere."""
    return {stem(word) for word in words(text) if word not in _STOP and not word.isdigit() and len(word) > 1}


def clauses(text: str) -> Iterator[Clause]:
    """The clauses of `text` that say something. `Do not, if it is full, drop it` negates what comes next."""
    carried = False
    for part in _CLAUSE_END.split(text.lower()):
        said = words(part)
        negated = carried or _NEGATION.search(part) is not None
        every = frozenset(stem(word) for word in said)
        # `Go to step 9` has no word of content, but must not become `do not go to step 9`.
        stems = frozenset(content_stems(part)) or every - _NEGATING_STEMS
        carried = negated and bool(said) and not stems
        if stems:
            yield Clause(stems, negated, every, _order(said))


def _order(said: Sequence[str]) -> str | None:
    """The first word of a clause, past what may stand before an order."""
    for word in said:
        if word in _BEFORE_ORDER or word.endswith("n't"):
            continue
        return None if word in _STOP or word.isdigit() else stem(word)
    return None


def risky_verbs(stems: Collection[str]) -> list[set[str]]:
    """For each thing among `stems` that is hard to take back, the stems by which a step may call it."""
    return [names for verbs, names in _RISKY_STEMS if not verbs.isdisjoint(stems)]


def opposes(clause: Clause, known: Sequence[Clause], overlap: float) -> bool:
    """Some known clause says the same about the same thing, but with the opposite of a word of `clause`."""
    for one, other in _OPPOSITES:
        for word, opposite in ((stem(one), stem(other)), (stem(other), stem(one))):
            if word not in clause.all_stems or opposite in clause.all_stems:
                continue
            about = clause.stems - {word}
            near = [item for item in known if about and len(about & item.stems) / len(about) >= overlap]
            if any(opposite in item.all_stems for item in near) and not any(word in item.all_stems for item in near):
                return True
    return False


_WRAPPED = re.compile(r"(?<!\n)\n(?!\s{0,20}(?:\n|[-*+>|#]|\d{1,3}[.)]))")


def spoken(text: str) -> str:
    """Prose with its code spans as plain words, so that `do not run` and what not to run stay together.

    Fences are left out. Words inside code neither negate nor end a clause.
    """
    pieces: list[str] = []
    end = 0
    for code in find_code(text):
        pieces.append(text[end : code.start])
        if not code.fenced:
            inner = [word for word in _WORD.findall(code.text.lower()) if word not in _MASKED]
            pieces.append(f" {' '.join(inner)} ")
        end = code.end
    pieces.append(text[end:])
    return _WRAPPED.sub(" ", "".join(pieces))
