"""Markdown files to runbooks. Pure; a large file takes a second or two, so call it off the event loop.

Written for files as they are found: front matter or none, sections instead of steps, every item `1.`, fences inside
items, `#` inside fences, setext headings, Hugo shortcodes, comments, templates, tables, unclosed fences, CRLF.
`cairn_shared.runbooks.steps` says how steps are found and numbered.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from pydantic import ValidationError

from cairn_shared.errors import InvalidInput, TooLarge
from cairn_shared.plain_text import strip_invisible
from cairn_shared.redaction import redact
from cairn_shared.runbooks.front_matter import FrontMatter, read_front_matter
from cairn_shared.runbooks.model import MAX_MARKDOWN_BYTES, Runbook
from cairn_shared.runbooks.noise import remove_noise
from cairn_shared.runbooks.outline import Outline, block_parser, read_outline
from cairn_shared.runbooks.steps import find_steps

FIELD = "markdown"
MAX_TITLE = 500
MAX_LINES = 20_000
_ALERT_NAME = re.compile(r"(?=[a-z]*[A-Z])(?=\w*[a-z])[A-Za-z][A-Za-z0-9_]{3,}")
_STATUS_SUFFIX = re.compile(r"\s*[\[(][\w ]{1,30}[\])]\s*$")
_INDEX_NAMES = frozenset({"readme", "index", "_index"})


@dataclass(frozen=True)
class RunbookDefaults:
    """What holds where the file itself says nothing; tags, alerts and links are added to the file's."""

    title: str | None = None
    service: str | None = None
    severity: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


NO_DEFAULTS = RunbookDefaults()


def decode_markdown(data: bytes) -> str:
    """The text of a Markdown file.

    Raises:
        TooLarge: over `MAX_MARKDOWN_BYTES`.
        InvalidInput: not UTF-8 (the detail names the byte offset), or with NUL bytes, as binary files have.
    """
    if len(data) > MAX_MARKDOWN_BYTES:
        raise TooLarge(f"the file is over {MAX_MARKDOWN_BYTES} bytes: split it", field=FIELD)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidInput("the file is UTF-16: save it as UTF-8", field=FIELD)
    if (offset := data.find(b"\0")) >= 0:
        raise InvalidInput(f"NUL byte at byte offset {offset}: this is not a text file", field=FIELD)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise InvalidInput(f"invalid UTF-8 at byte offset {exc.start}: save the file as UTF-8", field=FIELD) from exc


def load_runbook(
    text: str,
    *,
    runbook_id: str,
    source: str = "api",
    path: str | None = None,
    commit: str | None = None,
    blob: str | None = None,
    url: str | None = None,
    defaults: RunbookDefaults = NO_DEFAULTS,
    warn: Callable[[str], object] = lambda _: None,
) -> Runbook:
    """The runbook that `text` is.

    Its title is the front matter's, else the first heading, else the file's name. Its alerts are the front matter's,
    and its file name or first heading where that is an alert's name. Secrets are redacted, invisible characters
    removed (`strip_invisible` counts them), line numbers those of `text`.

    Args:
        text: the file's whole text; `decode_markdown` gives it.
        runbook_id: the id to give it.
        source: `api`, or `repo:NAME`.
        path: the file's path in its repository or folder, with `/`.
        commit: the commit it was read at.
        blob: the blob id of the file.
        url: where a person can read it.
        defaults: what holds where the file says nothing.
        warn: is told what the author should know though the file is taken.

    Raises:
        TooLarge: over `MAX_MARKDOWN_BYTES` or `MAX_LINES`.
        InvalidInput: broken front matter, NUL characters, no content besides a title, too many steps, a bad id.
    """
    if len(text) > MAX_MARKDOWN_BYTES or len(text.encode(errors="replace")) > MAX_MARKDOWN_BYTES:
        raise TooLarge(f"the text is over {MAX_MARKDOWN_BYTES} bytes: split it", field=FIELD)
    if (offset := text.find("\0")) >= 0:
        line = text.count("\n", 0, offset) + 1
        raise InvalidInput(f"NUL character in line {line}: this is not text", field=FIELD)
    lines = strip_invisible(text)[0].replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if len(lines) > MAX_LINES:
        raise TooLarge(f"the text has over {MAX_LINES} lines: split it", field=FIELD)
    matter = read_front_matter(lines)
    for warning in matter.warnings:
        warn(warning)
    parser = block_parser()
    lines = [""] * matter.end + remove_noise(lines[matter.end :], parser)
    outline = read_outline(lines, parser)
    steps = [step.model_copy(update={"body": redact(step.body)}) for step in find_steps(lines, outline)]
    if not steps:
        raise InvalidInput(_why_empty(lines, matter), field=FIELD)
    title = matter.title or defaults.title or outline.title or _name_of(path) or _first_heading(outline) or runbook_id
    try:
        return Runbook(
            id=runbook_id,
            title=redact(title)[:MAX_TITLE],
            service=matter.service or defaults.service,
            severity=matter.severity or defaults.severity,
            owner=matter.owner or defaults.owner,
            tags=_merged(matter.tags, defaults.tags),
            alerts=_merged(matter.alerts, defaults.alerts, _alert_names(outline, path)),
            links=[redact(link) for link in _merged(matter.links, defaults.links)],
            source=source,
            path=path,
            commit=commit,
            blob=blob,
            url=url,
            steps=steps,
        )
    except ValidationError as exc:
        error = exc.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in error["loc"])
        raise InvalidInput(f"{where}: {error['msg']}", field=where) from exc


def _why_empty(lines: list[str], matter: FrontMatter) -> str:
    if any(line.strip() for line in lines):
        return "no content besides the title"
    return "no content besides the front matter" if matter.end else "the file is empty"


def _merged(*groups: tuple[str, ...] | list[str]) -> list[str]:
    """All of `groups` in order, each once however it is capitalised."""
    found: dict[str, str] = {}
    for group in groups:
        for text in group:
            found.setdefault(text.casefold(), text)
    return list(found.values())


def _name_of(path: str | None) -> str | None:
    """The file's name without ending; the folder's for an index page."""
    if not path:
        return None
    pure = PurePosixPath(path)
    return pure.parent.name or None if pure.stem.casefold() in _INDEX_NAMES else pure.stem


def _first_heading(outline: Outline) -> str | None:
    return next((section.heading for section in outline.sections if section.heading), None)


def _alert_names(outline: Outline, path: str | None) -> list[str]:
    """Title headings and file names that are alerts' names: one word in CamelCase, or the same word twice."""
    heading = _STATUS_SUFFIX.sub("", outline.title or "")
    name = PurePosixPath(path).stem if path else ""
    names = [
        word for word in (heading, name) if _ALERT_NAME.fullmatch(word) and re.search("[a-z][A-Z]|[A-Z]{2}[a-z]", word)
    ]
    if heading and heading.casefold() == name.casefold() and " " not in heading:
        names.append(heading)
    return [word for word in names if word.casefold() not in _INDEX_NAMES]
