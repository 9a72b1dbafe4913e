"""Front matter: the YAML between `---` lines (or TOML between `+++`) at the top of a Markdown file."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from datetime import date
from typing import Any

import yaml
from frontmatter.default_handlers import YAMLHandler

from cairn_shared.errors import InvalidInput

FIELD = "front matter"
MAX_CHARACTERS = 64 * 1024
MAX_ALIASES = 16
"""YAML aliases multiply: a few lines can stand for gigabytes."""

MAX_ITEMS = 200
MAX_ITEM_LENGTH = 2000


@dataclass(frozen=True)
class FrontMatter:
    """What a file says about itself; `end` is the number of lines that it takes up, delimiters included.

    `warnings` are for the author: values that make no sense where they stand, and what became of them.
    """

    title: str | None = None
    service: str | None = None
    severity: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    end: int = 0
    warnings: tuple[str, ...] = ()


def read_front_matter(lines: list[str]) -> FrontMatter:
    """The front matter of a file given as its lines; an empty one where there is none.

    Fields are taken where they can be read and left out, with a warning, where their type makes no sense: only a
    syntax error refuses the file.

    Raises:
        InvalidInput: it cannot be parsed; the detail names the line in the file.
    """
    opening = lines[0].rstrip() if lines else ""
    if opening not in ("---", "+++"):
        return FrontMatter()
    closings = ("---", "...") if opening == "---" else ("+++",)
    last = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() in closings), None)
    if last is None:
        return FrontMatter()
    source = "\n".join(lines[1:last])
    if len(source) > MAX_CHARACTERS:
        raise InvalidInput(f"front matter: over {MAX_CHARACTERS} characters", field=FIELD)
    data = _yaml(source) if opening == "---" else _toml(source)
    if data is None and not source.strip():
        return FrontMatter(end=last + 1)
    if not isinstance(data, dict):
        return FrontMatter()  # text between two rules, not front matter
    return _fields({_key(name): value for name, value in data.items() if isinstance(name, str)}, last + 1)


def _yaml(source: str) -> Any:
    try:
        if "*" in source and "&" in source:
            aliases = sum(isinstance(token, yaml.AliasToken) for token in yaml.scan(source, Loader=yaml.SafeLoader))
            if aliases > MAX_ALIASES:
                raise InvalidInput(f"front matter: more than {MAX_ALIASES} YAML aliases", field=FIELD)
        return YAMLHandler().load(source)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        line = f"line {mark.line + 2}: " if mark else ""
        raise InvalidInput(f"front matter: {line}{exc.problem or 'not valid YAML'}", field=FIELD) from exc
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as exc:
        raise InvalidInput(f"front matter: {_first_line(exc)}", field=FIELD) from exc


def _toml(source: str) -> Any:
    try:
        return tomllib.loads(source)
    except tomllib.TOMLDecodeError as exc:
        place = re.search(r"at line (\d+)", str(exc))
        line = f"line {int(place[1]) + 1}: " if place else ""
        problem = re.sub(r" \(at .*\)$", "", str(exc))
        raise InvalidInput(f"front matter: {line}{problem}", field=FIELD) from exc
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"front matter: {_first_line(exc)}", field=FIELD) from exc


def _first_line(exc: Exception) -> str:
    if isinstance(exc, RecursionError):
        return "nested too deeply"
    return (str(exc).splitlines() or ["not valid YAML"])[0][:200]


def _key(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip()).casefold()


def _fields(data: dict[str, Any], end: int) -> FrontMatter:
    warnings: list[str] = []

    def first(*names: str) -> str | None:
        for name in names:
            texts = _texts(data.get(name), split=False)
            warnings.extend(_about_one(name, data.get(name), texts))
            # A list of several things that are no text is no name for anything.
            if texts and not (isinstance(data[name], list) and not _only_text(data[name])):
                return texts[0]
        return None

    def every(*names: str, split: bool = True) -> tuple[str, ...]:
        found: list[str] = []
        for name in names:
            texts = _texts(data.get(name), split=split)
            warnings.extend(_about_many(name, data.get(name), texts))
            found += texts
        return tuple(dict.fromkeys(found))[:MAX_ITEMS]

    return FrontMatter(
        title=first("title", "name"),
        service=first("service", "services", "component"),
        severity=first("severity"),
        owner=first("owner", "owners", "team"),
        tags=every("tags", "tag", "keywords"),
        alerts=every("alerts", "alert", "alertname", "alertnames", "alert_name", "alert_names"),
        links=every("runbook_url", "runbook_urls", "links", "link", "aliases", "url", split=False),
        end=end,
        warnings=tuple(f"front matter: {warning}" for warning in warnings),
    )


def _about_one(name: str, value: Any, texts: list[str]) -> list[str]:
    """What to say of a value where one text is wanted."""
    if value is None or (isinstance(value, str | list) and not value):
        return []
    if isinstance(value, list) and texts and not _only_text(value):
        return [f"{name} is a list of things that are no text, so it is left out"]
    if not texts and not isinstance(value, str):
        return [f"{name} is {_kind(value)}, so it is left out"]
    return [f"{name} is a list, its first of {len(texts)} is taken"] if len(texts) > 1 else []


def _about_many(name: str, value: Any, texts: list[str]) -> list[str]:
    """What to say of a value where texts are wanted."""
    if isinstance(value, list):
        lost = [item for item in value[:MAX_ITEMS] if item is not None and not _texts_of_item(item)]
        more = [f"{name} has {len(value)} items, {MAX_ITEMS} are taken"] if len(value) > MAX_ITEMS else []
        return [*([f"in {name} {_kind(lost[0])} is left out"] if lost else []), *more]
    if value is None or isinstance(value, str):
        return []
    if not texts:
        return [f"{name} is {_kind(value)}, so it is left out"]
    return [] if isinstance(value, dict) else [f"{name} is {_kind(value)}, taken as the text {texts[0]}"]


def _only_text(items: list[Any]) -> bool:
    return len(items) == 1 or all(isinstance(item, str | dict) for item in items)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return "a number" if isinstance(value, int | float) else "a date" if isinstance(value, date) else "no text"


def _texts_of_item(item: Any) -> list[str]:
    return [] if isinstance(item, list) else _texts(item, split=False)


def _texts(value: Any, *, split: bool) -> list[str]:
    """The texts in a scalar, a comma string (with `split`), a list of either, or a list of `{name: ...}`."""
    if isinstance(value, dict):
        value = next((value[name] for name in ("name", "alert", "url", "href", "title") if name in value), None)
    if isinstance(value, list | tuple):
        return [text for item in value[:MAX_ITEMS] if not isinstance(item, list) for text in _texts(item, split=split)]
    if isinstance(value, bool) or not isinstance(value, str | int | float | date):
        return []
    parts = str(value).split(",") if split else [str(value)]
    return [" ".join(part.split())[:MAX_ITEM_LENGTH] for part in parts if part.strip()]
