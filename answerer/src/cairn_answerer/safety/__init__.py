"""A static label for every command: read-only, changes state, or destructive.

Rules, never a model, and never a promise: the label of a line is that of the most dangerous program in it, and what
the rules do not know counts as changing state.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from cairn_answerer.safety.clients import (
    MONGO_CLIENTS,
    SQL_CLIENTS,
    classify_mongo_client,
    classify_redis_client,
    classify_sql_client,
)
from cairn_answerer.safety.clouds import CLOUDS, classify_cloud
from cairn_answerer.safety.level import CHANGES, DESTRUCTIVE, READ_ONLY, Safety, worst
from cairn_answerer.safety.options import beyond_reading
from cairn_answerer.safety.shell import Simple, split
from cairn_answerer.safety.sql import classify_sql, looks_like_sql
from cairn_answerer.safety.stores import classify_mongo, classify_typed_redis, looks_like_redis
from cairn_answerer.safety.tools import TOOLS, classify_tool
from cairn_answerer.safety.unix import DESTROYS, JOINERS, READS, after_flags, classify_unix, unwrap
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
_EXECUTORS = word_set("kubectl oc docker podman crictl nerdctl docker-compose k")
_EXEC_VALUED = word_set("-n -c -u -w -e --user --container --namespace --env --workdir --env-file --index")
_DOWNLOADS = frozenset(["curl", "wget"])
_SSH_VALUED = word_set("-b -c -e -i -l -m -o -p -w -B -D -E -F -I -J -L -O -Q -R -S -W")
_LINES = frozenset(["nc", "ncat", "telnet", "openssl"])
"""What sends the lines that are fed to it to a server."""

_HARMLESS_LINES = re.compile(
    r"(?:\s|\\[rn])*(?:ruok|stat|srvr|mntr|conf|cons|envi|isro|wchs|dump|info|ping|q|quit|)(?:\s|\\[rn])*",
    re.IGNORECASE,
)

KNOWN_PROGRAMS = (
    READS - word_set("[ : . true false test set read type last who w host file command")
    | DESTROYS
    | frozenset(TOOLS)
    | CLOUDS
    | _SHELLS
    | SQL_CLIENTS
    | MONGO_CLIENTS
    | word_set(
    "redis-cli redis-server ssh scp sudo curl wget find kill dd sed service rsync mongodump mongorestore "
    "ip watch parallel "
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
        return classify_typed_redis(command)
    return _shell(command, 0)


def _shell(text: str, depth: int, wrapper: Simple | None = None) -> Safety:
    """A command line. `wrapper`: the program that runs it, whose input it reads."""
    if depth > _MAX_DEPTH:
        return CHANGES
    commands, inner = split(text)
    levels = [_shell(part, depth + 1) for part in inner]
    downloaded = any(_program(command.words) in _DOWNLOADS for part in inner for command in split(part)[0])
    before: Simple | None = None
    downloads = False
    for command in commands:
        program = _program(command.words)
        said = _said(before) if before and command.piped else ""
        level = _simple(replace(command, body="\n".join(filter(None, [command.body, said]))), depth, wrapper)
        if (downloads and command.piped and program in _SHELLS) or (
            downloaded and program in _SHELLS | {"source", "."}
        ):
            level = DESTRUCTIVE  # whatever the network sends is run
        downloads = program in _DOWNLOADS or (downloads and command.piped)
        levels.append(level)
        before = command
    return worst(levels)


def _said(command: Simple) -> str:
    """What `echo` and `printf` write."""
    return " ".join(command.words[1:]) if _program(command.words) in ("echo", "printf") else ""


def _program(words: Sequence[str]) -> str:
    rest = unwrap(words)
    return rest[0].rpartition("/")[2].removesuffix(".sh") if rest else ""


def _simple(command: Simple, depth: int, wrapper: Simple | None = None) -> Safety:
    command = command.inside(wrapper) if wrapper else command
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
    if " " in words[0].strip():
        return _shell(" ".join(words), depth + 1, command)  # a whole line: `flock FILE -c 'rm x'`
    if name == "-c":
        return _shell(" ".join(rest[:1]), depth + 1, command)
    if name in JOINERS:
        return _joined(name, after_flags(rest, JOINERS[name]), command, depth)
    if name in _SHELLS or (name in ("su", "runuser") and "-c" in rest):
        return _script(rest, command, depth)
    if name in SQL_CLIENTS:
        return classify_sql_client(name, rest, command)
    if name in MONGO_CLIENTS:
        return classify_mongo_client(rest, command)
    if name == "redis-cli":
        return classify_redis_client(rest, command)
    if name == "ssh":
        return _script_of_a_host(_after_host(rest), command, depth)
    if name in _EXECUTORS and (inner := _executed(rest)) is not None:
        return _simple(Simple(tuple(inner)), depth + 1, command) if inner and depth < _MAX_DEPTH else CHANGES
    if name in TOOLS:
        return classify_tool(TOOLS[name], rest)
    if name in CLOUDS:
        return classify_cloud(rest)
    least, runs = beyond_reading(name, rest)
    if name in _LINES and command.fed and not _HARMLESS_LINES.fullmatch(command.body if command.piped else "?"):
        least = worst([least, CHANGES])
    return worst([least, classify_unix(name, rest), *(_shell(line, depth + 1) for line in runs)])


def _joined(name: str, words: Sequence[str], command: Simple, depth: int) -> Safety:
    """`watch`, `eval` and `parallel`: their words are one line. `parallel ::: LINE LINE` runs each."""
    if name != "parallel":
        return _shell(" ".join(words), depth + 1, command) if words else READ_ONLY
    place = next((place for place, word in enumerate(words) if word.startswith(":::")), len(words))
    lines = [" ".join(words[:place])] if place else words[place + 1 :]
    return worst([_shell(line, depth + 1) for line in lines] or [CHANGES])


def _script_of_a_host(remote: Sequence[str], command: Simple, depth: int) -> Safety:
    if remote:
        return _shell(" ".join(remote), depth + 1, command)
    return worst([CHANGES if command.fed else READ_ONLY, _shell(command.body, depth + 1)])


def _script(rest: Sequence[str], command: Simple, depth: int) -> Safety:
    for position, word in enumerate(rest):
        if re.fullmatch(r"-[a-z]*c", word):
            # Without a text, as below xargs, it is not written here.
            return _shell(rest[position + 1], depth + 1, command) if position + 1 < len(rest) else CHANGES
    level = _shell(command.body, depth + 1) if command.body else READ_ONLY
    files = any(not word.startswith("-") for word in rest) or (rest and not command.body)
    return worst([level, CHANGES if files or command.fed else READ_ONLY])


def _after_host(words: Sequence[str]) -> list[str]:
    position = 0
    while position < len(words) and words[position].startswith("-"):
        position += 2 if words[position] in _SSH_VALUED else 1
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
        position += 2 if rest[position] in _EXEC_VALUED else 1
    return rest[position + 1 :]
