"""Words that engineers write for one another: `pg` for PostgreSQL, `master` for primary, `cert` for certificate.

Only spellings, nicknames and abbreviations of one thing: words that are merely related are the embedding's business.
"""

from __future__ import annotations

import re

GROUPS: tuple[tuple[str, ...], ...] = (
    ("postgresql", "postgres", "pg"),
    ("mongodb", "mongo"),
    ("kubernetes", "k8s"),
    ("elasticsearch", "es"),
    ("prometheus", "prom"),
    ("primary", "master"),
    ("replica", "slave", "standby", "secondary"),
    ("application", "app"),
    ("authentication", "auth"),
    ("certificate", "cert"),
    ("configuration", "config"),
    ("connection", "conn"),
    ("database", "db"),
    ("deployment", "deploy"),
    ("directory", "dir"),
    ("environment", "env"),
    ("error", "err"),
    ("filesystem", "fs"),
    ("memory", "mem"),
    ("message", "msg"),
    ("namespace", "ns"),
    ("parameter", "param"),
    ("performance", "perf"),
    ("production", "prod"),
    ("replication", "repl"),
    ("repository", "repo"),
    ("service", "svc"),
    ("temporary", "temp", "tmp"),
    ("transaction", "txn", "tx"),
    ("volume", "vol"),
)

_WORD = re.compile(r"[a-z0-9]+")
_GROUP_OF = {word: group for group in GROUPS for word in group}


def spellings(text: str) -> tuple[tuple[str, ...], ...]:
    """The groups that `text` has a word of, singular or plural, in the order of first occurrence."""
    found: dict[tuple[str, ...], None] = {}
    for word in _WORD.findall(text.casefold()):
        group = _GROUP_OF.get(word) or _GROUP_OF.get(word.removesuffix("s"))
        if group is not None:
            found[group] = None
    return tuple(found)
