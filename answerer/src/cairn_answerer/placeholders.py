"""Placeholders in commands (`<pod>`, `$NAMESPACE`, `{{ $labels.instance }}`), filled from an alert's labels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cairn_answerer.words import word_set

_ANGLED = re.compile(r"(?<![<A-Za-z0-9])<(?P<angled>[A-Za-z][A-Za-z0-9_.-]{0,59}(?: [A-Za-z0-9_.-]{1,30}){0,4})>(?!>)")
_TEMPLATE = re.compile(r"\{\{-?\s{0,3}\$?\.?(?:labels|Labels)\.(?P<template>\w{1,60})\s{0,3}-?\}\}")
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>[A-Za-z_]\w{0,59})\}|(?P<bare>[A-Za-z_]\w{0,59}))")
_IN_SHELL = re.compile("|".join(pattern.pattern for pattern in (_TEMPLATE, _ANGLED, _VARIABLE)))
_ELSEWHERE = re.compile("|".join(pattern.pattern for pattern in (_TEMPLATE, _ANGLED)))
_ASSIGNED = re.compile(
    r"(?:^|[;\s(])(?:export\s+|local\s+|read\s+(?:-r\s+)?|for\s+)?([A-Za-z_]\w{0,59})(?:=|\s+in\s)", re.MULTILINE
)
_SAFE_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@%+-]{0,252}")
_NOISE = re.compile(r"[^a-z0-9]+")
_SHELL_OWN = word_set(
    "HOME PATH PWD OLDPWD USER SHELL LANG HOSTNAME RANDOM SECONDS LINENO UID EUID PPID IFS PS1 TERM TMPDIR "
    "EDITOR BASH_SOURCE KUBECONFIG labels value"
)
_SUFFIXES = ("name", "id", "address", "host")


@dataclass(frozen=True)
class Filled:
    """A command with known values in place, and the placeholders for which none is known."""

    text: str
    unfilled: tuple[str, ...]


def fill(command: str, values: Mapping[str, str], *, variables: bool = True) -> Filled:
    """Fill what `values` (label name -> value) know.

    `variables`: `$NAME` is a placeholder too; in SQL and JavaScript it is part of the language. A value goes in only
    if it cannot mean anything to a shell: labels can be written by whoever writes a metric.
    """
    known = {_key(name): value for name, value in values.items() if _SAFE_VALUE.fullmatch(value)}
    own = set(_ASSIGNED.findall(command)) | _SHELL_OWN
    unfilled: dict[str, None] = {}
    quoted = _single_quoted(command)

    def replace(match: re.Match[str]) -> str:
        groups = match.groupdict()
        variable = groups.get("braced") or groups.get("bare")
        if variable and (variable in own or any(start < match.start() < end for start, end in quoted)):
            return match[0]
        name = variable or match["angled"] or match["template"]
        value = _look_up(name, known)
        if value is None:
            unfilled[match[0]] = None
            return match[0]
        return value

    pattern = _IN_SHELL if variables else _ELSEWHERE
    return Filled(text=pattern.sub(replace, command), unfilled=tuple(unfilled))


def _key(name: str) -> str:
    return _NOISE.sub("", name.lower())


def _look_up(name: str, known: Mapping[str, str]) -> str | None:
    """`<pod-name>`, `$POD_NAME` and `<the pod>` are all the label `pod`; `<pod>` may also be the label `pod_name`."""
    words = [
        word
        for word in _NOISE.split(name.lower())
        if word not in ("", "the", "your", "my", "a", "of", "affected", "failing")
    ]
    if not words:
        return None
    candidates = ["".join(words)]
    if len(words) > 1 and words[-1] in _SUFFIXES:
        candidates.append("".join(words[:-1]))
    joined = candidates[0]
    candidates += [joined.removesuffix("name")] if joined.endswith("name") and len(joined) > 4 else [joined + "name"]
    candidates += ["namespace"] if joined == "ns" else []
    return next((known[key] for key in candidates if key in known), None)


def _single_quoted(text: str) -> list[tuple[int, int]]:
    """Spans in single quotes, where the shell leaves `$x` alone (awk and jq programs)."""
    spans: list[tuple[int, int]] = []
    start: int | None = None
    double = False
    for position, char in enumerate(text):
        if char == '"' and start is None:
            double = not double
        elif char == "'" and not double:
            if start is None:
                start = position
            else:
                spans.append((start, position))
                start = None
    return spans
