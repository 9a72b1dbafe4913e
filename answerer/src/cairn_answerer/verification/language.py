"""Words of a text in one form each, so that `restarting` meets `restarted` and `pick` meets `choose`."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from cairn_answerer.verification.vocabulary import IRREGULAR, OPPOSITES, RISKY, SAME

_IRREGULAR: Final = dict(pair.split("=") for pair in IRREGULAR.split())
_ENDINGS: Final = (("ies", 3), ("ing", 4), ("ied", 3), ("ed", 4), ("es", 4), ("ly", 4), ("s", 3))
_NOUN_ENDINGS: Final = ("ation", "ion", "ment")


def plain_stem(word: str) -> str:
    """A crude stem: enough that `restarting`, `restarted` and `restarts` meet, and `promotion` and `promote`.

    Without `SAME`: `kill` and `terminate` are two verbs to whoever looks for risky ones.
    """
    if word in _IRREGULAR:
        word = _IRREGULAR[word]
    for suffix, keep in _ENDINGS:
        if word.endswith(suffix) and len(word) - len(suffix) >= keep - 1 and not word.endswith("ss"):
            root = word[: -len(suffix)] + ("y" if suffix in ("ies", "ied") else "")
            if len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lsz":
                root = root[:-1]
            word = root.rstrip("e") if len(root) > 3 else root
            break
    for suffix in _NOUN_ENDINGS:
        if word.endswith(suffix) and len(word) - len(suffix) >= 5:
            return word[: -len(suffix)].rstrip("e")
    return word.rstrip("e") if len(word) > 3 else word


_CANONICAL: Final = {plain_stem(word): plain_stem(group.split()[0]) for group in SAME for word in group.split()}


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """The form in which a lower-case word is compared."""
    plain = plain_stem(word)
    return _CANONICAL.get(plain, plain)


RISKY_STEMS: Final = tuple(
    (
        frozenset(plain_stem(word) for word in verbs.split()),
        frozenset(plain_stem(word) for word in f"{verbs} {others}".split()),
    )
    for verbs, others in RISKY
)
"""Of each thing that is hard to take back: the stems in a claim, and those by which a step may call it."""


def _opposites() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for pair in OPPOSITES.split():
        one, other = (stem(word) for word in pair.split("/"))
        found.setdefault(one, set()).add(other)
        found.setdefault(other, set()).add(one)
    return {word: frozenset(others) for word, others in found.items()}


OPPOSITE_STEMS: Final = _opposites()
