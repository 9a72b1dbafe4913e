"""How current an answer is, and waiting (briefly) until what somebody just wrote can be found."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from cairn_answerer.deadline import Deadline
from cairn_answerer.model import CorpusState
from cairn_answerer.ports import Corpus
from cairn_shared.api.ask import AskRequest, Freshness, PendingRevision
from cairn_shared.errors import InvalidInput, TransientError
from cairn_shared.retry import Backoff

_POLL = Backoff(base=0.02, factor=1.6, limit=0.25)


def pending(asked: Mapping[str, int], indexed: Mapping[str, int]) -> list[PendingRevision]:
    """Runbooks whose asked-for revision cannot be found yet; an unknown runbook counts as revision 0."""
    return [
        PendingRevision(runbook_id=runbook_id, indexed_revision=indexed.get(runbook_id, 0), latest_revision=revision)
        for runbook_id, revision in sorted(asked.items())
        if indexed.get(runbook_id, 0) < revision
    ]


def receipt(state: CorpusState | None, late: Sequence[PendingRevision]) -> Freshness:
    """As it stands in the response. `lag_seconds` is how long the newest change took from accepted to searchable."""
    if state is None:
        return Freshness(pending=list(late))
    return Freshness(index_time=state.index_time, lag_seconds=state.lag_seconds, pending=list(late))


def event_ids(request: AskRequest) -> list[uuid.UUID]:
    """`wait_for` as ids.

    Raises:
        InvalidInput: one is no UUID.
    """
    ids = []
    for place, text in enumerate(request.wait_for):
        try:
            ids.append(uuid.UUID(text))
        except ValueError as exc:
            raise InvalidInput(f"{text[:60]!r} is not an event id (a UUID)", field=f"wait_for.{place}") from exc
    return ids


class Waiting:
    """What is still on its way after the wait."""

    def __init__(self, late: Sequence[PendingRevision] = (), unsettled: bool = False) -> None:
        self.late = list(late)
        self.behind = bool(late) or unsettled


async def wait(corpus: Corpus, request: AskRequest, deadline: Deadline) -> Waiting:
    """Until everything asked for is searchable, or the deadline; a failing corpus ends the wait at once."""
    events = event_ids(request)
    if not events and not request.min_revision:
        return Waiting()
    attempt = 0
    while True:
        attempt += 1
        try:
            indexed = await corpus.revisions(list(request.min_revision)) if request.min_revision else {}
            settled = await corpus.settled(events) if events else set()
        except TransientError:
            return Waiting(pending(request.min_revision, {}), unsettled=bool(events))
        late = pending(request.min_revision, indexed)
        unsettled = bool(set(events) - settled)
        if not late and not unsettled:
            return Waiting()
        delay = _POLL.delay(attempt)
        if deadline.remaining() < delay:
            return Waiting(late, unsettled)
        await deadline.clock.sleep(delay)
