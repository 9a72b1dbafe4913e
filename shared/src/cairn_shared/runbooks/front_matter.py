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
    """What a file says about itself; `end` is the number of lines that it takes up, delimiters included."""

    title: str | None = None
    service: str | None = None
    severity: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    end: int = 0


def read_front_matter(lines: list[str]) -> FrontMatter:
    """The front matter of a file given as its lines; an empty one where there is none.

    Fields are taken where they can be read and left out where their type makes no sense: only a syntax error
    refuses the file.

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
    def first(*names: str) -> str | None:
        return next((texts[0] for name in names if (texts := _texts(data.get(name), split=False))), None)

    def every(*names: str, split: bool = True) -> tuple[str, ...]:
        found = [text for name in names for text in _texts(data.get(name), split=split)]
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
    )


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
