"""Importing files as runbooks: each by itself, so that a bad file harms no other."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from cairn_gateway.drafts import from_markdown
from cairn_gateway.schemas.runbooks import ImportBody, ImportItem, ImportResult, status_of
from cairn_shared.errors import CairnError, InvalidInput, TooLarge, TransientError
from cairn_shared.runbooks.model import RUNBOOK_ID_PATTERN
from cairn_shared.runbooks.records import Head
from cairn_shared.runbooks.store import RunbookStore

MAX_IMPORT_BYTES = 8 * 1024 * 1024
_MAX_ID = 200
_CONCURRENT = 4


def id_of_path(path: str, prefix: str = "") -> str:
    """The id of the file at `path`: `a/b.md` is `a-b`.

    What an id cannot hold becomes `-`; a longer id ends in a hash of the path.

    Raises:
        InvalidInput: nothing of the path can be an id.
    """
    stem = re.sub(r"\.(md|markdown)$", "", path, flags=re.IGNORECASE)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", prefix + stem.replace("/", "-"))
    name = name.lstrip("._-").rstrip("-")
    if len(name) > _MAX_ID:
        digest = hashlib.sha256(path.encode()).hexdigest()[:12]
        name = f"{name[: _MAX_ID - 13]}-{digest}"
    if not re.fullmatch(RUNBOOK_ID_PATTERN, name):
        raise InvalidInput("no id can be made of this path: it needs a letter or a digit", field="path")
    return name


async def import_items(store: RunbookStore, body: ImportBody, *, by: str) -> list[ImportResult]:
    """Write each item; the results in the same order.

    Raises:
        TooLarge: the items together are over `MAX_IMPORT_BYTES`.
        TransientError: MongoDB went away; what was written stays, and repeating the import is harmless.
    """
    if sum(len(item.markdown.encode(errors="replace")) for item in body.items) > MAX_IMPORT_BYTES:
        raise TooLarge(f"the items are over {MAX_IMPORT_BYTES} bytes together: send fewer", field="items")
    ids = [_id_or_none(item, body.prefix) for item in body.items]
    repeated = {runbook_id for runbook_id, count in Counter(ids).items() if runbook_id and count > 1}
    known = await store.find_heads(runbook_id for runbook_id in ids if runbook_id)
    first: dict[str, str] = {}
    for item, runbook_id in zip(body.items, ids, strict=True):
        if runbook_id in repeated:
            first.setdefault(runbook_id, item.path)
    limit = asyncio.Semaphore(_CONCURRENT)

    async def one(item: ImportItem) -> ImportResult:
        async with limit:
            return await _import(store, body, item, first=first, known=known, by=by)

    return await asyncio.gather(*(one(item) for item in body.items))


async def _import(
    store: RunbookStore,
    body: ImportBody,
    item: ImportItem,
    *,
    first: Mapping[str, str],
    known: Mapping[str, Head],
    by: str,
) -> ImportResult:
    runbook_id = None
    try:
        runbook_id = id_of_path(checked_path(item.path), body.prefix)
        if first.get(runbook_id, item.path) != item.path:
            raise InvalidInput(f"{first[runbook_id]} has the same id {runbook_id}; rename one", field="path")
        _check_owner(known.get(runbook_id), body.source, item.path)
        draft = await asyncio.to_thread(from_markdown, runbook_id, item.markdown, source=body.source, path=item.path)
        written = await store.put(draft.runbook, markdown=draft.markdown, by=by)
    except TransientError:
        raise
    except CairnError as exc:
        field = exc.field if isinstance(exc, InvalidInput) else None
        return ImportResult(path=item.path, id=runbook_id, status="rejected", reason=exc.detail, field=field)
    return ImportResult(
        path=item.path,
        id=runbook_id,
        status=status_of(written),
        revision=written.revision,
        event_id=written.event_id,
        steps=len(written.runbook.steps),
    )


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


def _check_owner(known: Head | None, source: str, path: str) -> None:
    """Two files must not take turns in being one runbook."""
    if known is None or known.deleted or (known.source, known.path) in ((source, path), (source, None)):
        return
    where = f"{known.source}, {known.path}" if known.path else known.source
    raise InvalidInput(f"the id {known.id} belongs to another runbook ({where}); import with a prefix", field="path")


def _id_or_none(item: ImportItem, prefix: str) -> str | None:
    try:
        return id_of_path(item.path, prefix)
    except InvalidInput:
        return None


__all__: Sequence[str] = ("MAX_IMPORT_BYTES", "checked_path", "id_of_path", "import_items")
