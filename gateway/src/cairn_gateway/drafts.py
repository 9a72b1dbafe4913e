"""Request bodies to runbooks. Pure; reading large Markdown takes a while, so call it off the event loop."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from cairn_gateway.schemas.runbooks import RunbookBody
from cairn_shared.errors import InvalidInput, TooLarge
from cairn_shared.events import first_error
from cairn_shared.redaction import redact
from cairn_shared.runbooks.markdown import MAX_TITLE, RunbookDefaults, decode_markdown, load_runbook
from cairn_shared.runbooks.model import MAX_MARKDOWN_BYTES, Runbook, Step

API = "api"
ModelT = TypeVar("ModelT", bound=BaseModel)


@dataclass(frozen=True)
class Draft:
    """A runbook to be written; `markdown` is its source, secrets redacted, if it came as Markdown.

    `warnings`: what its author should know though it is taken.
    """

    runbook: Runbook
    markdown: str | None
    keep_provenance: bool
    warnings: tuple[str, ...] = ()


def from_markdown(
    runbook_id: str,
    text: str,
    *,
    source: str | None = None,
    path: str | None = None,
    url: str | None = None,
    defaults: RunbookDefaults = RunbookDefaults(),
) -> Draft:
    """A runbook from Markdown. Without a `source` of its own, it keeps that of the runbook it changes.

    Raises:
        TooLarge: over `MAX_MARKDOWN_BYTES`.
        InvalidInput: it is no runbook; the detail says why.
    """
    if len(text.encode(errors="replace")) > MAX_MARKDOWN_BYTES:
        raise TooLarge(f"the Markdown is over {MAX_MARKDOWN_BYTES} bytes: divide it", field="markdown")
    reject_nul(text, "markdown")
    clean = redact(text)
    warnings: list[str] = []
    runbook = load_runbook(
        clean,
        runbook_id=runbook_id,
        source=source or API,
        path=path,
        url=url,
        defaults=defaults,
        warn=warnings.append,
    )
    return Draft(runbook, clean, keep_provenance=source is None, warnings=tuple(warnings))


def from_markdown_bytes(runbook_id: str, data: bytes, *, source: str | None, path: str | None) -> Draft:
    """The same from a request body.

    Raises:
        TooLarge, InvalidInput: see `from_markdown`; also for what is not UTF-8.
    """
    return from_markdown(runbook_id, decode_markdown(data), source=source, path=path)


def from_json_bytes(runbook_id: str, data: bytes, *, source: str | None) -> Draft:
    """A runbook from a JSON body, a `RunbookBody`.

    Raises:
        MalformedJson: not JSON.
        InvalidInput: a field is wrong or unknown; it is named.
        TooLarge: over `MAX_MARKDOWN_BYTES`.
    """
    return from_body(runbook_id, parse_json(RunbookBody, data), source=source)


def from_body(runbook_id: str, body: RunbookBody, *, source: str | None) -> Draft:
    """A runbook from a `RunbookBody`.

    Raises:
        TooLarge, InvalidInput: see `from_json_bytes`.
    """
    reject_unstorable(body.model_dump(), "")
    if body.path is not None:
        checked_path(body.path)
    if (body.markdown is None) == (body.steps is None):
        raise InvalidInput("give either `markdown` or `steps`", field="markdown" if body.markdown is None else "steps")
    if body.markdown is not None:
        defaults = RunbookDefaults(
            title=body.title,
            service=body.service,
            severity=body.severity,
            owner=body.owner,
            tags=tuple(body.tags),
            alerts=tuple(body.alerts),
            links=tuple(body.links),
        )
        return from_markdown(runbook_id, body.markdown, source=source, path=body.path, url=body.url, defaults=defaults)
    if body.title is None:
        raise InvalidInput("a runbook with `steps` needs a title", field="title")
    return Draft(_with_steps(runbook_id, body, body.title, source), None, keep_provenance=source is None)


def _with_steps(runbook_id: str, body: RunbookBody, title: str, source: str | None) -> Runbook:
    steps, line = [], 1
    for number, given in enumerate(body.steps or (), start=1):
        text = redact(given.body)
        if not text.strip():
            raise InvalidInput("the step is empty", field=f"steps.{number - 1}.body")
        end = line + text.count("\n")
        label = given.label or str(number)
        steps.append(
            Step(
                number=number,
                label=label,
                section=redact(given.section),
                kind=given.kind,
                body=text,
                line_start=line,
                line_end=end,
            )
        )
        line = end + 1
    if sum(len(step.body.encode()) for step in steps) > MAX_MARKDOWN_BYTES:
        raise TooLarge(f"the steps are over {MAX_MARKDOWN_BYTES} bytes: divide them", field="steps")
    return Runbook(
        id=runbook_id,
        title=redact(title)[:MAX_TITLE],
        service=body.service,
        severity=body.severity,
        owner=body.owner,
        tags=list(dict.fromkeys(body.tags)),
        alerts=list(dict.fromkeys(body.alerts)),
        links=list(dict.fromkeys(body.links)),
        source=source or API,
        path=body.path,
        url=body.url,
        steps=steps,
    )


class MalformedJson(InvalidInput):
    """The body is not JSON at all."""

    status = 400
    title = "Malformed JSON"


def parse_json(model: type[ModelT], data: bytes) -> ModelT:
    """`data` as `model`.

    Raises:
        MalformedJson: not JSON.
        InvalidInput: not UTF-8, or a field is wrong or unknown.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        raise InvalidInput(f"invalid UTF-8 at byte offset {exc.start}", field="body") from exc
    try:
        return model.model_validate_json(text)
    except ValidationError as exc:
        error = exc.errors(include_input=False, include_url=False, include_context=False)[0]
        if error["type"] == "json_invalid":
            raise MalformedJson(error["msg"], field="body") from exc
        field = ".".join(str(part) for part in error["loc"]) or "body"
        raise InvalidInput(first_error(exc), field=field) from exc


def checked_path(path: str) -> str:
    """`path`, if it is one that a folder or repository can have.

    Raises:
        InvalidInput: empty, too long, absolute, leading outwards, or with control characters.
    """
    if not path or len(path) > 1000:
        raise InvalidInput("the path is empty or over 1000 characters", field="path")
    if path.startswith("/") or ".." in path.split("/") or re.search(r"[\x00-\x1f\x7f]", path):
        raise InvalidInput("the path must be relative, without `..` and control characters", field="path")
    return path


def reject_nul(text: str, field: str) -> None:
    """No store keeps NUL characters in text.

    Raises:
        InvalidInput: there is one.
    """
    if (offset := text.find("\0")) >= 0:
        raise InvalidInput(f"{field}: NUL character in line {text.count(chr(10), 0, offset) + 1}", field=field)


def reject_unstorable(value: Any, field: str) -> None:
    """The same of every string in decoded JSON, the names of members too; also of halves of surrogate pairs.

    Raises:
        InvalidInput: there is one; `field` leads to it.
    """
    waiting = [(value, field)]
    while waiting:
        item, where = waiting.pop()
        if isinstance(item, str):
            reject_nul(item, where or "body")
            if not item.isascii():
                _reject_surrogates(item, where or "body")
        elif isinstance(item, dict):
            for name, member in item.items():
                reject_unstorable(name, where)
                waiting.append((member, f"{where}.{name}" if where else str(name)))
        elif isinstance(item, list):
            waiting += [(member, f"{where}.{position}") for position, member in enumerate(item)]


def _reject_surrogates(text: str, field: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidInput(f"{field}: half a surrogate pair at character {exc.start + 1}", field=field) from None
