"""Reading a request: the alert in it, the names in it, and what is worth embedding of a long paste."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from cairn_retriever.alerts import FoundAlert, find_alerts
from cairn_retriever.model import ParsedQuery
from cairn_retriever.vocabulary import fillers, products, spellings
from cairn_shared.api.search import AlertContext
from cairn_shared.identifiers import camel_case_names, identifiers, searchable_text

MAX_CHARACTERS = 1_200
"""About what a model of 256 tokens reads of prose; code and logs are cut by the embedder's own limit."""

MAX_NAMES = 200

_URL = re.compile(r"https?://[^\s\"'<>()\[\]{}|\\^`]{3,2000}", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{2,199}")
_HUMPS = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]|[_-]")
_TROUBLE = re.compile(
    r"error|fatal|panic|fail|exception|denied|refused|timed?[ _-]?out|unable|cannot|could not|no such|not found|"
    r"killed|oom|corrupt|invalid|unreachable|critical|traceback|segfault|exceeded|exhausted",
    re.IGNORECASE,
)
_ZONE = r"(?:Z| ?(?:[+-]\d\d:?\d\d|UTC|GMT))?"
_CLOCK = rf"\d\d:\d\d:\d\d(?:[.,]\d+)?{_ZONE}"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_TIMES = re.compile(
    rf"\d{{4}}-\d\d-\d\d[T ]{_CLOCK}|\b\d\d?[ /]{_MONTH}[ /]\d{{4}}[ :]{_CLOCK}|\b{_MONTH} [ \d]\d {_CLOCK}"
)
"""Of logs: RFC 3339 and PostgreSQL; Redis and HTTP servers; syslog."""
_HASHES = re.compile(r"\b[0-9a-f]{16,}\b|\b0x[0-9a-f]+\b", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def clean(text: str) -> str:
    """`text` without what PostgreSQL or UTF-8 cannot hold."""
    return _SURROGATES.sub("\ufffd", _CONTROL.sub(" ", text))


def parse(text: str, alert: AlertContext | None = None) -> ParsedQuery:
    """Read a request's query and alert."""
    text = clean(text)
    found, prose = find_alerts(text)
    if alert is not None:
        found = [FoundAlert.of(alert), *found]
    told = [clean(part) for one in found for part in one.told]
    links = tuple(dict.fromkeys(_addresses(text, found)))
    labels = [clean(value) for one in found for value in one.labels]
    alerts = tuple(dict.fromkeys(one.name.casefold() for one in found if one.name))
    names = _names(prose)
    spoken = "\n".join([prose, *told]).strip()
    telling = excerpt(spoken)
    stated = [one.name for one in found if one.name]
    lexical = "\n".join([telling, *stated])
    return ParsedQuery(
        lexical_text=(words := searchable_text(lexical)),
        products=products(words),
        spellings=spellings(words),
        fillers=fillers(words),
        joined=tuple(camel_case_names(lexical))[:MAX_NAMES],
        embed_text=telling or excerpt(" ".join(stated)),
        # Only so many are looked up: those in the telling lines first.
        identifiers=tuple(identifiers("\n".join([lexical, *labels, spoken]))),
        alerts=alerts,
        names=names,
        links=links,
    )


def excerpt(text: str) -> str:
    """What to embed of `text`, and which words of it to search: all when short, else the lines that say what is wrong.

    A long paste is mostly repetition. Lines that name trouble are read, with a first and a last line unlike the others,
    where people write their question; and others where none does. Lines that differ only in numbers count once, hashes
    are dropped, and in any text the time of a log line is.
    """
    text = _TIMES.sub("", text).strip() or text.strip()
    if len(text) <= MAX_CHARACTERS:
        return text
    lines = [line for line in (_HASHES.sub("", raw).strip() for raw in text.splitlines()) if line]
    chosen: list[int] = []
    seen: set[str] = set()
    room = MAX_CHARACTERS
    for index in _telling(lines):
        shape = _shape(lines[index])
        if shape in seen:
            continue
        seen.add(shape)
        chosen.append(index)
        room -= len(lines[index][:400]) + 1
        if room <= 0:
            break
    return "\n".join(lines[index][:400] for index in sorted(chosen))[:MAX_CHARACTERS]


def _telling(lines: list[str]) -> list[int]:
    """Lines in the order in which they are taken."""
    shapes = Counter(_shape(line) for line in lines)
    ends = [i for i in dict.fromkeys([0, len(lines) - 1]) if lines and shapes[_shape(lines[i])] == 1]
    trouble = [i for i, line in enumerate(lines) if _TROUBLE.search(line[:1000])]
    return [*ends, *(trouble or range(len(lines)))]


def _shape(line: str) -> str:
    return _DIGITS.sub("#", line)[:300]


def _addresses(text: str, found: list[FoundAlert]) -> Iterator[str]:
    for raw in [*(one.runbook_url for one in found if one.runbook_url), *_URL.findall(text)]:
        link = raw.strip().rstrip(".,;:!?").casefold()
        yield link
        bare, _, _ = link.partition("#")
        bare, _, _ = bare.partition("?")
        yield bare.rstrip("/")
        yield bare.rstrip("/") + "/"


def link_names(links: tuple[str, ...]) -> list[str]:
    """What the addresses may call a runbook: their last path segments, without extension."""
    names = (link.rstrip("/").rpartition("/")[2].removesuffix(".md").removesuffix(".html") for link in links)
    return list(dict.fromkeys(name for name in names if len(name) > 2))


def _names(prose: str) -> dict[str, bool]:
    """Words that may name an alert or a runbook, True where the spelling says that they are names."""
    names: dict[str, bool] = {}
    for match in _NAME.finditer(_URL.sub(" ", prose)):
        word = match[0].strip("-_")
        if len(word) < 3:
            continue
        named = bool(_HUMPS.search(word)) or _alone(prose, word) or _called_alert(prose, match)
        folded = word.casefold()
        names[folded] = names.get(folded, False) or named
        if len(names) >= MAX_NAMES:
            break
    return names


def _alone(prose: str, word: str) -> bool:
    return prose.strip(" ?!.\"'`\n\t") == word


def _called_alert(prose: str, match: re.Match[str]) -> bool:
    """`alert Watchdog`, `Watchdog alert`, `alertname=Watchdog`, `Watchdog is firing`."""
    before = prose[max(0, match.start() - 16) : match.start()].casefold().rstrip(" :=\"'`")
    after = prose[match.end() : match.end() + 16].casefold().lstrip(" \"'`")
    return before.endswith(("alert", "alertname", "alarm")) or after.startswith(
        ("alert", "is firing", "firing", "alarm")
    )
