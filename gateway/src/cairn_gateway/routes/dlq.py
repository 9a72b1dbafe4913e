"""`/dlq`: the dead letter workbench. An editor may look, an operator may act and see raw bytes."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from cairn_gateway.dependencies import Gateway, RequireEditor, RequireOperator
from cairn_gateway.dlq.carrying import CarriedLetter, parsed
from cairn_gateway.dlq.model import Letter
from cairn_gateway.routes.guarded import GuardedRoute
from cairn_gateway.routes.problems import problems
from cairn_gateway.routes.raw import takes
from cairn_gateway.schemas.dlq import (
    DiscardBody,
    DryRunBody,
    EditBody,
    ExportQuery,
    GroupQuery,
    LetterQuery,
    ReasonBody,
    ReleaseHaltBody,
    ReplayBody,
    base64_bytes,
)
from cairn_gateway.schemas.dlq_views import (
    DiscardAnswer,
    DryRunView,
    EditAnswer,
    GroupList,
    GroupView,
    HaltList,
    ImportAnswer,
    JobList,
    JobView,
    LetterPage,
    LetterSummary,
    LetterView,
    RejectedLine,
)
from cairn_shared.errors import InvalidInput, NotFound

router = APIRouter(prefix="/dlq", tags=["dead letters"], route_class=GuardedRoute)

NDJSON = "application/x-ndjson"
MAX_LINES = 10_000
"""Letters of one import."""

JobId = Annotated[str, Path(pattern=r"^[0-9a-f]{12}$")]


@router.get("", response_model=LetterPage, responses=problems(422))
async def list_letters(state: Gateway, _: RequireEditor, wanted: Annotated[LetterQuery, Query()]) -> LetterPage:
    """Dead letters that every given filter fits, the last failed first."""
    found, following = await state.workbench.letters.page(wanted.choice(), wanted.after, wanted.limit)
    newer = await state.workbench.superseded(found)
    now = state.clock.now()
    views = [LetterSummary.of(letter, now, newer.get(letter.id)) for letter in found]
    return LetterPage(letters=views, next=following)


@router.get("/groups", response_model=GroupList, responses=problems(422))
async def list_groups(state: Gateway, _: RequireEditor, wanted: Annotated[GroupQuery, Query()]) -> GroupList:
    """Letters that failed alike, counted together: mostly one group is one cause."""
    now = state.clock.now()
    found = await state.workbench.letters.groups(wanted.choice(), wanted.limit)
    return GroupList(groups=[GroupView.of(group, now) for group in found])


@router.get("/halts", response_model=HaltList, responses=problems())
async def list_halts(state: Gateway, _: RequireEditor) -> HaltList:
    """Partitions on which consumption stopped because too much failed for good, and why."""
    return HaltList(halts=await state.workbench.halts())


@router.post("/halts/release", status_code=204, responses=problems(400, 404, 422))
async def release_halt(body: ReleaseHaltBody, state: Gateway, who: RequireOperator) -> None:
    """Let the consumer go on with a partition; it takes two seconds or so."""
    await state.workbench.release(body.topic, body.partition, who)


@router.post("/dry-runs", response_model=DryRunView, responses=problems(400, 422))
async def dry_run(body: DryRunBody, state: Gateway, _: RequireOperator) -> DryRunView:
    """What the consumers' code of now would make of open letters. Nothing is written."""
    return DryRunView.of(await state.workbench.dry_run(body.choice(), body.limit))


@router.post("/replays", status_code=202, response_model=JobView, responses=problems(400, 404, 409, 422))
async def replay(body: ReplayBody, state: Gateway, who: RequireOperator) -> JobView:
    """Send open letters back to the topics they came from, so many a second.

    The replay is stored: it goes on after a restart, and every gateway can show and stop it. Letters that came back
    from three replays are left out (one chosen by its id is a 409) unless `force`.
    """
    workbench = state.workbench
    job = await workbench.replay(body.choice(), who, rate=body.rate, limit=body.limit, force=body.force, note=body.note)
    return JobView.of(*await workbench.progress(job.id))


@router.get("/replays", response_model=JobList, responses=problems(422))
async def list_replays(state: Gateway, _: RequireEditor, limit: Annotated[int, Query(ge=1, le=100)] = 20) -> JobList:
    """The newest replays, with their progress."""
    jobs = await state.workbench.jobs.latest(limit)
    return JobList(replays=[JobView.of(job, await state.workbench.jobs.progress(job)) for job in jobs])


@router.get("/replays/{job_id}", response_model=JobView, responses=problems(404, 422))
async def get_replay(job_id: JobId, state: Gateway, _: RequireEditor) -> JobView:
    """One replay and how far it is."""
    return JobView.of(*await state.workbench.progress(job_id))


@router.post("/replays/{job_id}/stop", response_model=JobView, responses=problems(404, 422))
async def stop_replay(job_id: JobId, state: Gateway, who: RequireOperator) -> JobView:
    """Send no more of it; what was not sent stays open."""
    await state.workbench.stop(job_id, who)
    return JobView.of(*await state.workbench.progress(job_id))


@router.post("/discards", response_model=DiscardAnswer, responses=problems(400, 422))
async def discard(body: DiscardBody, state: Gateway, who: RequireOperator) -> DiscardAnswer:
    """Close open letters without a replay, saying why. They can still be seen, and opened again."""
    count = await state.workbench.discard(body.choice(), who, reason=body.reason, limit=body.limit)
    return DiscardAnswer(discarded=count)


@router.get(
    "/export",
    response_class=StreamingResponse,
    responses={200: {"content": {NDJSON: {}}, "description": "A letter a line."}, **problems(422)},
)
async def export(state: Gateway, _: RequireOperator, wanted: Annotated[ExportQuery, Query()]) -> StreamingResponse:
    """Letters as JSON lines, bytes in base64, the longest dead first; `POST /dlq/import` takes them."""
    letters = state.workbench.letters.each(wanted.choice(), wanted.limit)
    first = await anext(letters, None)  # a store that is away is a problem, not a broken stream
    return StreamingResponse(_lines(first, letters), media_type=NDJSON)


@router.post("/import", response_model=ImportAnswer, responses=problems(400, 413, 422), openapi_extra=takes(NDJSON))
async def bring_in(request: Request, state: Gateway, who: RequireOperator) -> ImportAnswer:
    """Take letters of an export, a JSON object a line, as open ones; those that are here already stay as they are."""
    lines = [(number, line) for number, line in enumerate((await request.body()).split(b"\n"), 1) if line.strip()]
    if len(lines) > MAX_LINES:
        raise InvalidInput(f"{len(lines)} lines; at most {MAX_LINES} at once", field="body")
    letters: list[Letter] = []
    rejected: list[RejectedLine] = []
    for number, line in lines:
        try:
            letters.append(parsed(line, state.clock.now()))
        except InvalidInput as exc:
            rejected.append(RejectedLine(line=number, reason=exc.detail))
    fresh, known = await state.workbench.bring_in(letters, who)
    return ImportAnswer(imported=fresh, known=known, rejected=rejected)


@router.get("/{letter_id}", response_model=LetterView, responses=problems(404, 422))
async def get_letter(letter_id: uuid.UUID, state: Gateway, _: RequireEditor) -> LetterView:
    """One letter: decoded, raw, headers, stack, history, and whether the index has a newer version."""
    return await _view(state, await state.workbench.letters.get(letter_id))


@router.get(
    "/{letter_id}/value",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "As it was."}, **problems(404, 422)},
)
async def get_value(letter_id: uuid.UUID, state: Gateway, _: RequireOperator) -> Response:
    """The record's value, byte for byte, nothing redacted."""
    letter = await state.workbench.letters.get(letter_id)
    if letter.value is None:
        raise NotFound("the record has no value" if letter.value_kept else "the value was too large to keep")
    headers = {"Content-Disposition": f'attachment; filename="{letter_id}"', "X-Content-Type-Options": "nosniff"}
    return Response(letter.value, media_type="application/octet-stream", headers=headers)


@router.post("/{letter_id}/edit", response_model=EditAnswer, responses=problems(400, 404, 409, 413, 422))
async def edit(letter_id: uuid.UUID, body: EditBody, state: Gateway, who: RequireOperator) -> EditAnswer:
    """Send a mended event in the letter's place: a new event with its own id, linked to the letter.

    The letter is resolved when the new event is searchable. With `dry_run` the consumers only try it.
    """
    try:
        value = base64_bytes(body.value_base64) if body.value_base64 is not None else (body.value or "").encode()
    except ValueError as exc:
        raise InvalidInput("not base64", field="value_base64") from exc
    if body.dry_run:
        return EditAnswer(dry_run=DryRunView.of(await state.workbench.dry_run_text(letter_id, value)))
    letter, event_id = await state.workbench.edit(letter_id, value, who, reason=body.reason)
    return EditAnswer(event_id=event_id, letter=await _view(state, letter))


@router.post("/{letter_id}/reopen", response_model=LetterView, responses=problems(400, 404, 409, 422))
async def reopen(letter_id: uuid.UUID, body: ReasonBody, state: Gateway, who: RequireOperator) -> LetterView:
    """Open a discarded letter again, or one whose replay was never heard of."""
    return await _view(state, await state.workbench.reopen(letter_id, who, reason=body.reason))


async def _view(state: Gateway, letter: Letter) -> LetterView:
    newer = await state.workbench.superseded([letter])
    return LetterView.of(letter, state.clock.now(), newer.get(letter.id))


async def _lines(first: Letter | None, rest: AsyncIterator[Letter]) -> AsyncIterator[bytes]:
    if first is not None:
        yield CarriedLetter.of(first).model_dump_json().encode() + b"\n"
    async for letter in rest:
        yield CarriedLetter.of(letter).model_dump_json().encode() + b"\n"
