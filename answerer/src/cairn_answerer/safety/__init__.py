"""A static label for every command: read-only, changes state, or destructive.

Rules, never a model, and never a promise: the label of a line is that of the most dangerous program in it, and what
the rules do not know counts as changing state.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from cairn_answerer.safety.clouds import CLOUDS, classify_cloud
from cairn_answerer.safety.level import CHANGES, DESTRUCTIVE, READ_ONLY, Safety, worst
from cairn_answerer.safety.shell import Simple, split
from cairn_answerer.safety.sql import classify_sql, looks_like_sql
from cairn_answerer.safety.stores import classify_mongo, classify_redis, looks_like_redis
from cairn_answerer.safety.tools import TOOLS, classify_tool
from cairn_answerer.safety.unix import DESTROYS, READS, classify_unix, unwrap
from cairn_answerer.words import word_set

__all__ = [
    "CHANGES",
    "DESTRUCTIVE",
    "KNOWN_PROGRAMS",
    "READ_ONLY",
    "Language",
    "Safety",
    "classify",
    "looks_like_redis",
    "looks_like_sql",
]

Language = Literal["shell", "sql", "mongosh", "redis"]

_MAX_DEPTH = 4
_MAX_LENGTH = 20_000
_SHELLS = frozenset(["sh", "bash", "zsh", "dash", "ksh", "ash"])
_SQL_CLIENTS = frozenset(["psql", "mysql", "mariadb", "cockroach", "sqlite3", "usql"])
_MONGO_CLIENTS = frozenset(["mongosh", "mongo"])
_EXECUTORS = word_set("kubectl oc docker podman crictl nerdctl docker-compose k")
_SQL_FLAGS = ("-c", "--command", "-e", "--execute")

KNOWN_PROGRAMS = (
    READS - word_set("[ : . true false test set read type last who w host file command")
    | DESTROYS
    | frozenset(TOOLS)
    | CLOUDS
    | _SHELLS
    | _SQL_CLIENTS
    | _MONGO_CLIENTS
    | word_set(
    "redis-cli redis-server ssh scp sudo curl wget find kill dd sed service rsync mongodump mongorestore "
    "pg_restore pg_basebackup pg_rewind pg_ctlcluster vacuumdb reindexdb iptables sysctl crontab mount umount "
    "chmod chown mv cp mkdir touch ln tar gzip gunzip tee kafka-topics kafka-consumer-groups kafka-configs "
    "ansible ansible-playbook make python python3 node npm pip fsck redis-check-aof redis-check-rdb repmgr "
    "barman pgbackrest wal-g xtrabackup mysql_upgrade mysqlcheck pt-kill pt-table-checksum "
    "pt-online-schema-change gh-ost orchestrator-client lvextend resize2fs xfs_growfs"
)
)  # fmt: skip
"""First words by which a code span is recognised as a command."""


def classify(command: str, language: Language = "shell") -> Safety:
    """The label of one command, statement or script."""
    command = command[:_MAX_LENGTH]
    if language == "sql":
        return classify_sql(command)
    if language == "mongosh":
        return classify_mongo(command)
    if language == "redis":
        return worst(classify_redis(line.split()) for line in command.splitlines() if line.strip())
    return _shell(command, 0)


def _shell(text: str, depth: int) -> Safety:
    if depth > _MAX_DEPTH:
        return CHANGES
    commands, inner = split(text)
    levels = [_shell(part, depth + 1) for part in inner]
    downloads = False
    for command in commands:
        level = _simple(command, depth)
        if downloads and command.piped and _program(command.words) in _SHELLS:
            level = DESTRUCTIVE  # whatever the network sends is run
        downloads = _program(command.words) in ("curl", "wget") or (downloads and command.piped)
        levels.append(level)
    return worst(levels)


def _program(words: Sequence[str]) -> str:
    rest = unwrap(words)
    return rest[0].rpartition("/")[2].removesuffix(".sh") if rest else ""


def _simple(command: Simple, depth: int) -> Safety:
    words = unwrap(command.words)
    level = _words(words, command, depth) if words else READ_ONLY
    if not command.writes:
        return level
    # `> file` and `cat /dev/null > file` empty it.
    empties = not words or words[0] == ":" or words in (["cat", "/dev/null"], ["true"])
    return DESTRUCTIVE if empties else worst([level, CHANGES])


def _words(words: Sequence[str], command: Simple, depth: int) -> Safety:  # noqa: PLR0911 - a table with conditions
    name = words[0].rpartition("/")[2]
    name = name.removesuffix(".sh") if name.startswith("kafka-") else name
    rest = list(words[1:])
    if name in _SHELLS or (name in ("su", "runuser") and "-c" in rest):
        return _script(rest, command, depth)
    if name in _SQL_CLIENTS:
        return _sql_client(rest, command)
    if name in _MONGO_CLIENTS:
        scripts = _values(rest, ("--eval",))
        return (
            worst(map(classify_mongo, scripts)) if scripts else CHANGES if command.piped or command.body else READ_ONLY
        )
    if name == "redis-cli":
        return worst([classify_redis(rest), CHANGES if command.piped and not rest else READ_ONLY])
    if name == "ssh":
        remote = _after_host(rest)
        return _shell(" ".join(remote), depth + 1) if remote else READ_ONLY
    if name in _EXECUTORS and (inner := _executed(rest)) is not None:
        return _shell_words(inner, depth) if inner else CHANGES
    if name in TOOLS:
        return classify_tool(TOOLS[name], rest)
    if name in CLOUDS:
        return classify_cloud(rest)
    return classify_unix(name, rest)


def _shell_words(words: Sequence[str], depth: int) -> Safety:
    return _simple(Simple(tuple(words)), depth + 1)


def _script(rest: Sequence[str], command: Simple, depth: int) -> Safety:
    for position, word in enumerate(rest):
        if re.fullmatch(r"-[a-z]*c", word) and position + 1 < len(rest):
            return _shell(rest[position + 1], depth + 1)
    if command.body:
        return _shell(command.body, depth + 1)
    return CHANGES if rest or command.piped else READ_ONLY


def _sql_client(rest: Sequence[str], command: Simple) -> Safety:
    statements = _values(rest, _SQL_FLAGS)
    if command.body:
        statements.append(command.body)
    if any(word in ("-f", "--file") or word.startswith("--file=") for word in rest) or (
        command.piped and not statements
    ):
        return CHANGES
    return worst(map(classify_sql, statements))


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


def _after_host(words: Sequence[str]) -> list[str]:
    position = 0
    while position < len(words) and words[position].startswith("-"):
        position += 2 if words[position] in ("-i", "-p", "-l", "-o", "-F", "-J", "-L", "-R", "-D") else 1
    return list(words[position + 1 :])


def _executed(words: Sequence[str]) -> list[str] | None:
    """What `kubectl exec` or `docker exec` runs; None when it is another subcommand."""
    verbs = [word for word in words if not word.startswith("-")]
    if "exec" not in verbs[:4] and "rsh" not in verbs[:4]:
        return None
    place = words.index("exec" if "exec" in words else "rsh")
    rest = list(words[place + 1 :])
    if "--" in rest:
        return rest[rest.index("--") + 1 :]
    position = 0
    while position < len(rest) and rest[position].startswith("-"):
        position += 2 if rest[position] in ("-n", "-c", "-u", "-w", "-e", "--user", "--container", "--namespace") else 1
    return rest[position + 1 :]
