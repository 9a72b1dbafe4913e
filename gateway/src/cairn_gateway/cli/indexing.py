"""Waiting with a progress bar, and saying how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from cairn_gateway.cli import screen
from cairn_gateway.cli.client import Cairn
from cairn_gateway.cli.exits import Negative
from cairn_gateway.cli.waiting import Waited, WaitPolicy, wait_searchable

WAIT_SECONDS = 300.0
Wait = Annotated[bool, typer.Option("--wait", help="Return when everything is searchable.")]
WaitLimit = Annotated[float, typer.Option(min=1, help="Seconds without progress after which waiting ends.")]


def wait(cairn: Cairn, event_ids: Sequence[str], limit: float) -> Waited:
    """Wait until the events are searchable, giving up after `limit` seconds without progress."""
    with screen.progress("indexing", len(event_ids)) as advance:
        return wait_searchable(cairn, event_ids, policy=WaitPolicy(limit=limit), advance=advance)


def show(waited: Waited | None) -> None:
    """How long it took, if there was a wait."""
    if waited is not None:
        screen.say(f"{waited.searchable} searchable after {waited.seconds:.1f} s")


def require_complete(waited: Waited | None) -> None:
    """Nothing, unless something is not searchable in spite of the wait.

    Raises:
        Negative: events are dead or still on their way.
    """
    if waited is None or waited.complete:
        return
    if waited.dead:
        raise Negative(
            f"{len(waited.dead)} events could not be processed: {', '.join(waited.dead[:5])}",
            hint="they wait in the dead letter queue; `cairn ingest EVENT_ID` shows one",
        )
    raise Negative(
        f"{len(waited.pending)} events are still on their way", hint="`cairn status` shows what they wait for"
    )
