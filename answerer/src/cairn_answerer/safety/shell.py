"""A command line to its simple commands: quotes, pipes, lists, substitutions, here-documents, redirections.

Only as much of the shell's grammar (POSIX.1-2017, XCU 2) as is needed to see every program that would run.
What cannot be parsed is still split somewhere, never dropped. Linear in the text.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

_PLACEHOLDER = re.compile(r"<[A-Za-z][\w .:/-]{0,60}?>|\{\{[^{}\n]{0,80}\}\}")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_REDIRECT = re.compile(r"(?:\d|&)?>>?\|?\s*(&?[^\s;|&]+)")
_STREAMS = re.compile(r"&\d|&-|/dev/(?:null|stdout|stderr|tty)")


@dataclass(frozen=True)
class Simple:
    """One program with its words. `piped`: reads what the one before wrote. `writes`: files it redirects to."""

    words: tuple[str, ...]
    piped: bool = False
    writes: tuple[str, ...] = ()
    body: str = ""


@dataclass
class _Splitter:
    pieces: list[tuple[str, bool]] = field(default_factory=list)
    inner: list[str] = field(default_factory=list)


def split(text: str) -> tuple[list[Simple], list[str]]:
    """(the simple commands of `text` in order, the texts of its `$(...)` and backtick substitutions)."""
    text = _PLACEHOLDER.sub("PLACEHOLDER", text.replace("\\\n", " "))
    text, body = _heredoc(text)
    splitter = _Splitter()
    _scan(text, splitter)
    commands = [_simple(piece, piped, body) for piece, piped in splitter.pieces if piece.strip()]
    return commands, splitter.inner


def _heredoc(text: str) -> tuple[str, str]:
    match = _HEREDOC.search(text)
    if not match:
        return text, ""
    lines = text[match.end() :].split("\n")
    rest, body = lines[0], []
    after: list[str] = []
    ended = False
    for line in lines[1:]:
        if ended:
            after.append(line)
        elif line.strip() == match[2]:
            ended = True
        else:
            body.append(line)
    return "\n".join([text[: match.start()] + rest, *after]), "\n".join(body)


def _scan(text: str, splitter: _Splitter) -> None:
    quote = ""
    start = 0
    piped = False
    position = 0
    while position < len(text):
        char = text[position]
        if char == "\\" and quote != "'":
            position += 2
            continue
        if quote != "'" and (text.startswith("$(", position) or char == "`"):
            end = _substitution_end(text, position)
            splitter.inner.append(text[position + (1 if char == "`" else 2) : end])
            position = end + 1
            continue
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "#" and (position == 0 or text[position - 1] in " \t\n;"):
            line_end = text.find("\n", position)
            end = len(text) if line_end < 0 else line_end
            splitter.pieces.append((text[start:position], piped))
            start, piped, position = end, False, end
            continue
        elif char in ";|\n" or (
            char == "&" and text[position - 1 : position] != ">" and text[position + 1 : position + 2] != ">"
        ):
            splitter.pieces.append((text[start:position], piped))
            double = text[position : position + 2] in ("||", "&&", ";;")
            piped = char == "|" and not double
            position += 2 if double else 1
            start = position
            continue
        position += 1
    splitter.pieces.append((text[start:], piped))


def _substitution_end(text: str, start: int) -> int:
    if text[start] == "`":
        end = text.find("`", start + 1)
        return len(text) if end < 0 else end
    depth = 0
    for position in range(start + 1, len(text)):
        if text[position] == "(":
            depth += 1
        elif text[position] == ")":
            depth -= 1
            if depth == 0:
                return position
    return len(text)


def _simple(piece: str, piped: bool, body: str) -> Simple:
    piece = piece.strip().strip("(){}").strip()
    bare = _outside_quotes(piece)
    writes = tuple(target for target in _REDIRECT.findall(bare) if not _STREAMS.fullmatch(target))
    try:
        words = shlex.split(piece, posix=True)
    except ValueError:
        words = piece.split()
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif re.fullmatch(r"(?:\d|&)?(?:>>?\|?|<)", word):
            skip = True
        elif not re.match(r"(?:\d|&)?(?:>>?|<)[^<]", word) or not kept:
            kept.append(word)
    return Simple(tuple(kept), piped, writes, body)


def _outside_quotes(text: str) -> str:
    kept: list[str] = []
    quote = ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        else:
            kept.append(char)
    return "".join(kept)
