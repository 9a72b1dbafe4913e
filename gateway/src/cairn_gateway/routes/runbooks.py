"""`/runbooks`: read, write, delete, import; what a text would be, and what was written before."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi import Path as InPath
from fastapi.responses import PlainTextResponse
from starlette.exceptions import HTTPException

from cairn_gateway.dependencies import Gateway, RequireEditor, RequireReader
from cairn_gateway.drafts import Draft, checked_path, from_json_bytes, from_markdown_bytes, parse_json, reject_nul
from cairn_gateway.importing import import_items
from cairn_gateway.preconditions import etag, precondition, unchanged
from cairn_gateway.routes.guarded import refuse_encoded
from cairn_gateway.routes.plain import described
from cairn_gateway.routes.problems import Responses, problems
from cairn_gateway.schemas.runbooks import (
    ImportAnswer,
    ImportBody,
    LinkedFrom,
    PreviewAnswer,
    RevisionPage,
    RevisionView,
    RunbookBody,
    RunbookDeletedBody,
    RunbookPage,
    RunbookSummary,
    RunbookView,
    RunbookWritten,
)
from cairn_shared.errors import NotFound
from cairn_shared.runbooks.model import MAX_MARKDOWN_BYTES, RUNBOOK_ID_PATTERN
from cairn_shared.runbooks.store import RunbookQuery

router = APIRouter(prefix="/runbooks", tags=["runbooks"])

MARKDOWN = "text/markdown"
_MARKDOWN_TYPES = (MARKDOWN, "text/x-markdown")
_SOURCE = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}$"
RunbookId = Annotated[str, InPath(pattern=RUNBOOK_ID_PATTERN)]
IfMatch = Annotated[str | None, Header(max_length=1000)]
IfNoneMatch = Annotated[str | None, Header(max_length=1000)]
_PUT_RESPONSES: Responses = {
    201: {"model": RunbookWritten, "description": "It did not exist before."},
    **problems(400, 409, 412, 413, 415, 422),
}
_GET_RESPONSES: Responses = {
    200: {"content": {MARKDOWN: {"schema": {"type": "string"}}}, "description": "The runbook."},
    304: {"description": "If-None-Match names the present revision."},
    **problems(404, 406, 422),
}


@router.put(
    "/{runbook_id}",
    response_model=RunbookWritten,
    responses=_PUT_RESPONSES,
    openapi_extra=described(RunbookBody, **{MARKDOWN: {"schema": {"type": "string", "maxLength": MAX_MARKDOWN_BYTES}}}),
)
async def put_runbook(
    runbook_id: RunbookId,
    request: Request,
    response: Response,
    state: Gateway,
    who: RequireEditor,
    *,
    path: Annotated[str | None, Query(description="Of a Markdown body: where the file lies.")] = None,
    source: Annotated[str | None, Query(pattern=_SOURCE, description="Who it belongs to; kept when absent.")] = None,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> RunbookWritten:
    """Create or replace a runbook, as JSON or as Markdown. Equal content changes nothing and makes no event."""
    condition = precondition(if_match, if_none_match)
    draft = await _draft(runbook_id, request, source, path)
    written = await state.store.put(
        draft.runbook,
        markdown=draft.markdown,
        by=who.user_id,
        precondition=condition,
        keep_provenance=draft.keep_provenance,
    )
    response.status_code = 201 if written.created else 200
    response.headers["ETag"] = etag(written.revision)
    if written.created:
        response.headers["Location"] = f"/runbooks/{runbook_id}"
    return RunbookWritten.of(written, draft.warnings)


async def _draft(runbook_id: str, request: Request, source: str | None, path: str | None) -> Draft:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and kind not in _MARKDOWN_TYPES:
        raise HTTPException(415, f"send the runbook as {MARKDOWN} or application/json (Content-Type)")
    refuse_encoded(request)
    if path is not None:
        checked_path(path)
    body = await request.body()
    if kind == "application/json":
        return await asyncio.to_thread(from_json_bytes, runbook_id, body, source=source)
    return await asyncio.to_thread(from_markdown_bytes, runbook_id, body, source=source, path=path)


@router.get("", response_model=RunbookPage, responses=problems(422))
async def list_runbooks(
    state: Gateway,
    _: RequireReader,
    *,
    service: Annotated[str | None, Query(max_length=200)] = None,
    tag: Annotated[str | None, Query(max_length=200)] = None,
    q: Annotated[str | None, Query(max_length=200, description="Looked for in id and title.")] = None,
    after: Annotated[str | None, Query(pattern=RUNBOOK_ID_PATTERN, description="The last page's `next`.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> RunbookPage:
    """List runbooks in order of their ids, page by page."""
    for name, value in (("service", service), ("tag", tag), ("q", q)):
        reject_nul(value or "", name)
    query = RunbookQuery(service=service, tag=tag, text=q, after=after, limit=limit + 1)
    heads = await state.store.page(query)
    following = heads[limit - 1].id if len(heads) > limit else None
    return RunbookPage(runbooks=[RunbookSummary.of(head) for head in heads[:limit]], next=following)


@router.post(
    "/import", response_model=ImportAnswer, responses=problems(400, 413, 422), openapi_extra=described(ImportBody)
)
async def import_runbooks(request: Request, state: Gateway, who: RequireEditor) -> ImportAnswer:
    """Write up to 200 files (8 MiB). Each is created, changed, unchanged, or rejected with its reason."""
    refuse_encoded(request)
    body = await asyncio.to_thread(parse_json, ImportBody, await request.body())
    return ImportAnswer(results=await import_items(state.store, body, by=who.user_id))


@router.post(
    "/preview",
    response_model=PreviewAnswer,
    responses=problems(400, 413, 422),
    openapi_extra=described(RunbookBody),
)
async def preview_runbook(request: Request, _: RequireReader) -> PreviewAnswer:
    """What a runbook would be, step by step, without writing it."""
    refuse_encoded(request)
    draft = await asyncio.to_thread(from_json_bytes, "preview", await request.body(), source=None)
    return PreviewAnswer.of(draft.runbook, draft.warnings)


@router.get(
    "/{runbook_id}",
    response_model=RunbookView,
    responses=_GET_RESPONSES,
)
async def get_runbook(
    runbook_id: RunbookId,
    response: Response,
    state: Gateway,
    _: RequireReader,
    accept: Annotated[str | None, Header(max_length=1000)] = None,
    if_none_match: IfNoneMatch = None,
) -> RunbookView | Response:
    """A runbook with its steps; with `Accept: text/markdown` the source that it was written as."""
    stored = await state.store.get(runbook_id)
    headers = {"ETag": etag(stored.revision), "Vary": "Accept"}
    if unchanged(if_none_match, stored.revision):
        return Response(status_code=304, headers=headers)
    if MARKDOWN in (accept or ""):
        if stored.markdown is None:
            raise HTTPException(406, "this runbook was not written as Markdown; ask for application/json")
        return PlainTextResponse(stored.markdown, media_type=f"{MARKDOWN}; charset=utf-8", headers=headers)
    response.headers.update(headers)
    return RunbookView.of(stored)


@router.get("/{runbook_id}/revisions", response_model=RevisionPage, responses=problems(404, 422))
async def list_revisions(
    runbook_id: RunbookId,
    state: Gateway,
    _: RequireReader,
    before: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> RevisionPage:
    """The revisions of a runbook, newest first; of a deleted one too."""
    found = await state.store.revisions(runbook_id, before, limit + 1)
    if not found and before is None:
        raise NotFound(f"there is no runbook {runbook_id}")
    following = found[limit - 1].revision if len(found) > limit else None
    views = [
        RevisionView(
            revision=stored.revision,
            deleted=stored.deleted,
            title=stored.runbook.title,
            steps=len(stored.runbook.steps),
            content_sha=stored.content_sha,
            updated_at=stored.updated_at,
            updated_by=stored.updated_by,
            event_id=stored.event_id,
        )
        for stored in found[:limit]
    ]
    return RevisionPage(id=runbook_id, revisions=views, next=following)


@router.get("/{runbook_id}/linked-from", response_model=LinkedFrom, responses=problems(404, 422))
async def list_links(runbook_id: RunbookId, state: Gateway, _: RequireReader) -> LinkedFrom:
    """Runbooks of the same folder or repository that link to this one."""
    found = await state.store.linking_to(await state.store.get(runbook_id))
    return LinkedFrom(runbooks=[RunbookSummary.of(head) for head in found])


@router.get("/{runbook_id}/revisions/{revision}", response_model=RunbookView, responses=_GET_RESPONSES)
async def get_revision(
    runbook_id: RunbookId,
    revision: Annotated[int, InPath(ge=1, lt=2**63)],
    state: Gateway,
    _: RequireReader,
    accept: Annotated[str | None, Header(max_length=1000)] = None,
) -> RunbookView | Response:
    """A runbook as it was. To go back to it, `PUT` its Markdown with `If-Match` of the newest revision."""
    found = await state.store.revisions(runbook_id, revision + 1, 1)
    if not found or found[0].revision != revision or found[0].deleted:
        raise NotFound(f"there is no revision {revision} of {runbook_id}")
    stored = found[0]
    if MARKDOWN in (accept or ""):
        if stored.markdown is None:
            raise HTTPException(406, "this revision was not written as Markdown; ask for application/json")
        return PlainTextResponse(
            stored.markdown, media_type=f"{MARKDOWN}; charset=utf-8", headers={"ETag": etag(revision), "Vary": "Accept"}
        )
    return RunbookView.of(stored)


@router.delete("/{runbook_id}", response_model=RunbookDeletedBody, responses=problems(404, 409, 412, 422))
async def delete_runbook(
    runbook_id: RunbookId, state: Gateway, who: RequireEditor, if_match: IfMatch = None
) -> RunbookDeletedBody:
    """Delete a runbook: it leaves search, and a tombstone with the next revision stays."""
    written = await state.store.delete(runbook_id, by=who.user_id, precondition=precondition(if_match, None))
    return RunbookDeletedBody(id=runbook_id, revision=written.revision, event_id=written.event_id)
