"""Whether what somebody reports about exists: the runbook, its revision, the step; and whether its times can be."""

from __future__ import annotations

from datetime import datetime, timedelta

from cairn_shared.errors import InvalidInput
from cairn_shared.runbooks.store import RunbookStore

CLOCKS_DIFFER = timedelta(minutes=5)
"""How far in the future a report may lie: the clocks of two machines are never quite the same."""


async def check_step(
    store: RunbookStore, runbook_id: str, step: int | None = None, revision: int | None = None
) -> None:
    """Refuse a runbook, revision or step that there never was.

    Raises:
        InvalidInput: naming `runbook_id`, `revision` or `step`.
    """
    head = (await store.find_heads([runbook_id])).get(runbook_id)
    if head is None:
        raise InvalidInput(f"there is no runbook {runbook_id}", field="runbook_id")
    steps: int | None = None if head.deleted else head.steps  # of one that is gone they are in its revisions only
    if revision is not None:
        found = await store.revisions(runbook_id, before=revision + 1, limit=1)
        if not found or found[0].revision != revision:
            raise InvalidInput(
                f"{runbook_id} has no revision {revision}; it is at {head.revision}, and GET "
                f"/runbooks/{runbook_id}/revisions lists them",
                field="revision",
            )
        steps = None if found[0].deleted else len(found[0].runbook.steps)
    if step is not None and steps is not None and step > steps:
        of = "" if revision is None else f" at revision {revision}"
        raise InvalidInput(f"{runbook_id} has {steps} steps{of}", field="step")


def check_past(now: datetime, **times: datetime | None) -> None:
    """Refuse what is said to have happened, but lies in the future.

    Raises:
        InvalidInput: naming the time.
    """
    for field, time in times.items():
        if time is not None and time > now + CLOCKS_DIFFER:
            raise InvalidInput(f"{time.isoformat()} is in the future; now is {now.isoformat()}", field=field)
