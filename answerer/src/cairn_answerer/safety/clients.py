"""Clients of stores: what they are told on their command line, and what is fed to them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cairn_answerer.safety.level import CHANGES, READ_ONLY, Safety, worst
from cairn_answerer.safety.shell import Simple
from cairn_answerer.safety.sql import classify_sql
from cairn_answerer.safety.stores import classify_mongo, classify_redis, classify_typed_redis

SQL_CLIENTS = frozenset(["psql", "mysql", "mariadb", "cockroach", "sqlite3", "usql"])
MONGO_CLIENTS = frozenset(["mongosh", "mongo"])

_STATEMENT_FLAGS = ("-c", "--command", "-e", "--execute")
_FILE_FLAG = re.compile(r"-[aAbeEHlnqsStxXw1]*f.*|--file(?:=.*)?|--source|--init-command.*|-init", re.DOTALL)
_PSQL_OUTPUT = re.compile(r"-[oL].*|--output.*|--log-file.*", re.DOTALL)
_SQLITE_READS = re.compile(
    r"\s*\.(?:tables|schema|indexes|databases|dbinfo|stats|mode|headers?|width|timer|help)\b[^|]*"
)
_MONGO_FILE = re.compile(r"--file(?:=.*)?|-f|.*\.m?js", re.DOTALL)


def classify_sql_client(name: str, words: Sequence[str], command: Simple) -> Safety:
    """psql, mysql and their like: statements are judged, files and what is fed to them are not known."""
    if name == "cockroach" and words[:1] != ["sql"]:
        return READ_ONLY if " ".join(words[:2]) in ("node status", "node ls", "version") else CHANGES
    statements = _values(words, _STATEMENT_FLAGS)
    if name == "sqlite3":
        operands = [word for word in words if not word.startswith("-")][1:]
        statements += [word for word in operands if not _SQLITE_READS.fullmatch(word)]
    if any(_FILE_FLAG.fullmatch(word) for word in words) or (words and words[-1] in _STATEMENT_FLAGS):
        return worst([CHANGES, *map(classify_sql, statements)])
    levels = [classify_sql(text) for text in (*statements, command.body) if text]
    if (command.fed and not statements) or (name == "psql" and any(map(_PSQL_OUTPUT.fullmatch, words))):
        levels.append(CHANGES)
    return worst(levels)


def classify_mongo_client(words: Sequence[str], command: Simple) -> Safety:
    """mongosh: `--eval`, script files, and what is fed to it."""
    scripts = _values(words, ("--eval",))
    levels = [classify_mongo(script) for script in (*scripts, command.body) if script]
    files = any(_MONGO_FILE.fullmatch(word) for word in words if word not in scripts)
    return worst([*levels, CHANGES if files or (command.fed and not scripts) else READ_ONLY])


def classify_redis_client(words: Sequence[str], command: Simple) -> Safety:
    """redis-cli: the command of its arguments, else the lines that are fed to it."""
    return worst([classify_redis(words, command.fed), classify_typed_redis(command.body)])


def _values(words: Sequence[str], flags: Sequence[str]) -> list[str]:
    """Values of `flags` in all spellings: `-c x`, `-Atc x`, `--command=x`, `-ex`."""
    found: list[str] = []
    short = [flag[1] for flag in flags if len(flag) == 2]
    for position, word in enumerate(words):
        name, equals, value = word.partition("=")
        if equals and name in flags:
            found.append(value)
        elif (word in flags or (short and re.fullmatch(rf"-[A-Za-z]*[{''.join(short)}]", word))) and position + 1 < len(
            words
        ):
            found.append(words[position + 1])
        elif short and re.fullmatch(rf"-[{''.join(short)}][^-=\s].*", word, re.DOTALL) and len(word) > 6:
            found.append(word[2:])
    return found
