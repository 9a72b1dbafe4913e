"""Importing files as runbooks: each by itself, so that a bad file harms no other."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Mapping

from cairn_gateway.drafts import checked_path, from_markdown
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
        warnings=list(draft.warnings),
    )


def _check_owner(known: Head | None, source: str, path: str) -> None:
    """Two files must not take turns in being one runbook, and no import undoes what was written by hand."""
    if known is None or known.deleted or (known.source, known.path) in ((source, path), (source, None)):
        return
    if known.path is None:
        raise InvalidInput(
            f"the id {known.id} belongs to a runbook that no file holds (source {known.source}): it is kept. For the "
            f"file's text delete it (`cairn runbooks rm {known.id}`) and import again; for both, import with a prefix",
            field="path",
        )
    where = f"{known.source}, {known.path}"
    raise InvalidInput(f"the id {known.id} belongs to another runbook ({where}); import with a prefix", field="path")


def _id_or_none(item: ImportItem, prefix: str) -> str | None:
    try:
        return id_of_path(item.path, prefix)
    except InvalidInput:
        return None
