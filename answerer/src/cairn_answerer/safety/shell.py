"""A command line to its simple commands: quotes, pipes, lists, substitutions, here-documents, redirections.

Only as much of the shell's grammar (POSIX.1-2017, XCU 2) as is needed to see every program that would run.
What cannot be parsed is still split somewhere, never dropped. Linear in the text.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace

_PLACEHOLDER = re.compile(r"<[A-Za-z][\w .:/-]{0,60}?>|\{\{[^{}\n]{0,80}\}\}")
_HEREDOC = re.compile(r"(?<!<)<<(?!<)-?\s*(['\"]?)(\w+)\1")
_REDIRECT = re.compile(r"(?:\d|&)?>>?\|?\s*(&?[^\s;|&]+)")
_STREAMS = re.compile(r"&\d|&-|/dev/(?:null|stdout|stderr|tty)")


@dataclass(frozen=True)
class Simple:
    """One program with its words.

    `piped`: reads what the one before wrote. `redirected`: reads a file. `body`: reads this text.
    `writes`: files it redirects to.
    """

    words: tuple[str, ...]
    piped: bool = False
    writes: tuple[str, ...] = ()
    body: str = ""
    redirected: bool = False

    @property
    def fed(self) -> bool:
        """Reads something that is not written here."""
        return self.piped or self.redirected

    def inside(self, wrapper: Simple) -> Simple:
        """The same, as run by `wrapper`, whose input it reads: `kubectl exec -i pod -- psql < fix.sql`."""
        return replace(
            self,
            piped=self.piped or wrapper.piped,
            body=self.body or wrapper.body,
            redirected=self.redirected or wrapper.redirected,
        )


def split(text: str) -> tuple[list[Simple], list[str]]:
    """(the simple commands of `text` in order, the texts of its `$(...)` and backtick substitutions)."""
    text = _PLACEHOLDER.sub("PLACEHOLDER", text.replace("\\\n", " "))
    text, body = _heredoc(text)
    text, inner = _substitutions(text)
    commands = [_simple(piece, piped, body) for piece, piped in _pieces(text) if piece.strip()]
    return commands, inner


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


def _substitutions(text: str) -> tuple[str, list[str]]:
    """`text` with a word in place of each substitution, and what the substitutions run."""
    kept: list[str] = []
    inner: list[str] = []
    single = False
    double = False
    position = start = 0
    while position < len(text):
        char = text[position]
        if char == "\\" and not single:
            position += 1
        elif char == "'" and not double:
            single = not single
        elif char == '"' and not single:
            double = not double
        elif not single and (
            text.startswith("$(", position) or char == "`" or (not double and text.startswith(("<(", ">("), position))
        ):
            end = _substitution_end(text, position)
            kept += (text[start:position], "SUBSTITUTION")
            inner.append(text[position + (1 if char == "`" else 2) : end])
            position, start = end, end + 1
        position += 1
    kept.append(text[start:])
    return "".join(kept), inner


def _pieces(text: str) -> list[tuple[str, bool]]:
    """(text of a simple command, whether it reads from the one before)."""
    pieces: list[tuple[str, bool]] = []
    quote = ""
    start = position = 0
    piped = False
    while position < len(text):
        char = text[position]
        if char == "\\" and quote != "'":
            position += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "#" and (position == 0 or text[position - 1] in " \t\n;"):
            line_end = text.find("\n", position)
            pieces.append((text[start:position], piped))
            start = position = len(text) if line_end < 0 else line_end
            continue
        elif char in ";|\n" or (char == "&" and ">" not in text[max(0, position - 1) : position + 2]):
            pieces.append((text[start:position], piped))
            double = text[position : position + 2] in ("||", "&&", ";;")
            piped = char == "|" and not double
            position += int(double)
            start = position + 1
        position += 1
    pieces.append((text[start:], piped))
    return pieces


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
    piece = piece.strip()
    piece = piece if piece == "{}" else piece.strip("(){}").strip()
    bare = _outside_quotes(piece)
    writes = tuple(target for target in _REDIRECT.findall(bare) if not _STREAMS.fullmatch(target))
    try:
        words = shlex.split(piece, posix=True)
    except ValueError:
        words = piece.split()
    kept: list[str] = []
    awaited = ""
    inputs: list[str] = []
    strings: list[str] = []
    for word in words:
        here = re.match(r"0?<<<", word)
        if awaited:
            (strings if "<<<" in awaited else inputs if "<" in awaited else []).append(word)
            awaited = ""
        elif here and "<<<" in bare:
            if word == here[0]:
                awaited = word
            else:
                strings.append(word[here.end() :])
        elif re.fullmatch(r"(?:\d|&)?(?:>>?\|?|<>?)", word):
            awaited = word
        elif not re.match(r"(?:\d|&)?(?:>>?|<)[^<]", word) or not kept:
            kept.append(word)
        elif re.match(r"0?<[^<(&]", word):
            inputs.append(word.lstrip("0<"))
    read = any(name != "/dev/null" for name in inputs)
    return Simple(tuple(kept), piped, writes, "\n".join([body, *strings]).strip("\n"), read)


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
