"""The commands in a step: from fences and code spans, whole, each with its safety label and its placeholders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from textwrap import dedent

from cairn_answerer.code import Code, find_code
from cairn_answerer.placeholders import fill
from cairn_answerer.safety import KNOWN_PROGRAMS, Language, classify, looks_like_redis, looks_like_sql
from cairn_answerer.words import word_set
from cairn_shared.api.ask import Command

MAX_COMMANDS = 400
_LANGUAGES: Mapping[str, Language] = {
    **dict.fromkeys(word_set("bash sh shell zsh ksh console terminal shell-session shellsession"), "shell"),
    **dict.fromkeys(word_set("sql psql postgresql postgres mysql plpgsql pgsql"), "sql"),
    **dict.fromkeys(word_set("js javascript mongosh mongodb mongo"), "mongosh"),
    **dict.fromkeys(word_set("redis redis-cli"), "redis"),
}
_PROMPT = re.compile(
    r"^\s*(?:\$|#(?= \S)|%|>|sh-[\d.]+[#$]|\[?[\w.-]+@[\w.-]+[^\]$#]{0,40}\]?[$#]|[\w.-]{1,63}(?:=[>#*]|>)"
    r"|[\d.:]+(?:\[\d+\])?>) +"
)
_DOLLAR = re.compile(r"^\s*(?:\$|sh-[\d.]+[#$]|[\w.-]+@[\w.-]+[^$#\n]{0,40}[$#]) +\S", re.MULTILINE)
_FIRST = re.compile(r"(?:\w+=\S*\s+)*(?:sudo\s+(?:-\w+\s+\S+\s+)?)?([\w./-]+)")
_BLOCK = re.compile(r"(?:^|[;&|\n]|\bdo|\bthen|\belse)[ \t]*(do|done|if|fi|case|esac)(?![\w-])")
_ELIDED = re.compile(r"\.{3}|…")
_HEREDOC = re.compile(r"(?<!<)<<(?!<)-?\s*['\"]?(\w+)")


def commands(step: str, values: Mapping[str, str]) -> tuple[list[Command], int]:
    """(the commands of a step, each once, with placeholders filled from `values`; how many more there are).

    A step with more than `MAX_COMMANDS` is somebody's list: it is shown as it is, and the rest is said to have none.
    """
    labelled, further = _commands(step, frozenset(values.items()))
    return list(labelled), further


@lru_cache(maxsize=2048)
def _commands(step: str, values: frozenset[tuple[str, str]]) -> tuple[tuple[Command, ...], int]:
    """The same few steps are shown again and again, and reading their commands was a third of an answer's time."""
    known = dict(values)
    found: dict[str, Command] = {}
    further: set[str] = set()
    for code in find_code(step):
        for text, language in _of_code(code):
            if len(found) >= MAX_COMMANDS:
                further.add(text)
                continue
            filled = fill(text, known, variables=language == "shell")
            if filled.text not in found:
                found[filled.text] = Command(
                    text=filled.text,
                    safety=classify(filled.text, language),
                    unfilled=list(filled.unfilled),
                    template=text if filled.text != text else None,
                )
    return tuple(found.values()), len(further - found.keys())


def language_of(text: str) -> Language | None:
    """The language of a code span, when it is a command at all."""
    if looks_like_redis(text):
        return "redis"
    if looks_like_sql(text):
        return "sql"
    first = _FIRST.match(text.strip())
    if first and first[1].rpartition("/")[2] in KNOWN_PROGRAMS and len(text.split()) > 1:
        return "shell"
    if re.match(r"(?:db|rs|sh)\.\w+[\w.]*\(", text):
        return "mongosh"
    return None


def _only_named(span: str, language: Language) -> bool:
    """A code span in prose may name a command without giving it: elided, without its object, or a program's message."""
    words = span.split()
    if any(_ELIDED.fullmatch(word) for word in words):
        return True
    if language == "redis":
        return words[:2] == ["CONFIG", "SET"] and len(words) < 4
    if language == "sql":
        return words[0] != "SHOW" and all(word.isalpha() and word.isupper() for word in words)
    return language == "shell" and words[0].endswith(":")


def _of_code(code: Code) -> Iterator[tuple[str, Language]]:
    if not code.fenced:
        if (language := language_of(code.text)) and not _only_named(code.text, language):
            yield code.text, language
        return
    declared = code.language.split()[0].strip("{}.") if code.language else ""
    language = _LANGUAGES.get(declared)
    if language is None and declared:
        return
    body = dedent(code.text.expandtabs(4))
    if language is None or (declared == "console" and _DOLLAR.search(body)):
        yield from _guessed(body)
    elif language == "sql":
        yield from ((statement, language) for statement in _statements(body))
    else:
        comment = "//" if language == "mongosh" else "#"
        yield from ((line, language) for line in _logical_lines(body, comment))


def _guessed(body: str) -> Iterator[tuple[str, Language]]:
    """A fence without a language, or a session with output: only what stands after a prompt or is known to be one."""
    prompts = [match.start() for match in _DOLLAR.finditer(body)]
    if not prompts:
        yield from ((line, found) for line in _logical_lines(body, "#") if (found := language_of(line)))
        return
    for start, end in zip(prompts, [*prompts[1:], len(body)], strict=True):
        # What follows the command up to the next prompt is its output.
        if line := next(_logical_lines(_PROMPT.sub("", body[start:end].lstrip("\n"), count=1), "#"), None):
            yield line, language_of(line) or "shell"


def _logical_lines(body: str, comment: str) -> Iterator[str]:
    """Lines, joined while a quote, a bracket, a loop, a here-document or a trailing backslash is open."""
    pending: list[str] = []
    heredoc: str | None = None
    lines = [line.rstrip() for line in body.splitlines()]
    for place, line in enumerate(lines):
        if heredoc is not None:
            pending.append(line)
            heredoc = None if line.strip() == heredoc else heredoc
        elif not pending and (not line.strip() or line.lstrip().startswith(comment)):
            continue
        else:
            pending.append(line if pending else _PROMPT.sub("", line.strip(), count=1))
            heredoc = opened[1] if (opened := _HEREDOC.search(line)) else None
        following = lines[place + 1].lstrip() if place + 1 < len(lines) else ""
        chained = comment == "//" and following.startswith(".")
        if heredoc is None and not chained and not line.endswith("\\") and not _open("\n".join(pending), comment):
            yield "\n".join(pending)
            pending = []
    if pending:
        yield "\n".join(pending)


def _open(text: str, comment: str) -> bool:
    """A quote, in JavaScript a bracket, in a shell a loop or a condition is still open."""
    quote = ""
    depth = 0
    escaped = False
    bare: list[str] = []
    for char in text:
        if escaped:
            escaped = False
        elif char == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        else:
            depth += (char in "([{") - (char in ")]}")
            bare.append(char)
    if quote:
        return True
    if comment == "//":
        return depth > 0
    words = _BLOCK.findall("".join(bare))
    return sum(1 if word in ("do", "if", "case") else -1 for word in words) > 0


def _statements(body: str) -> Iterator[str]:
    """SQL up to each semicolon outside quotes; psql's backslash commands end with their line."""
    pending: list[str] = []
    quote = ""
    for raw in body.splitlines():
        line = raw.rstrip() if pending else _PROMPT.sub("", raw.strip(), count=1)
        bare = line.strip()
        if not pending and (not bare or bare.startswith("--")):
            continue
        if not pending and bare.startswith("\\"):
            yield bare
            continue
        start = 0
        for position, char in enumerate(line):
            if quote:
                quote = "" if char == quote else quote
            elif char in "'\"":
                quote = char
            elif line.startswith("--", position):
                break
            elif char == ";" or line.startswith("\\G", position):
                pending.append(line[start : position + (1 if char == ";" else 2)])
                yield "\n".join(pending).strip()
                pending = []
                start = position + (1 if char == ";" else 2)
        rest = line[start:]
        if rest.strip() and not (not pending and rest.strip().startswith("--")):
            pending.append(rest)
    if pending and "\n".join(pending).strip():
        yield "\n".join(pending).strip()
