"""What a push asks the consumer to do, the same from every forge."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from cairn_gateway.sources.place import Place
from cairn_shared.documents.build import bounded_subject
from cairn_shared.documents.times import version
from cairn_shared.events import Event, RepoPushed, make_event


@dataclass(frozen=True)
class Pushed:
    """What moved: a branch from one commit to another."""

    branch: str
    before: str | None
    after: str | None
    forced: bool
    at: datetime


def pushed_event(name: str, pushed: Pushed, place: Place) -> Event:
    """The dirty mark of the runbook repository declared as `name`: the consumer asks what is there now."""
    return make_event(
        "repo.pushed",
        source=place.source,
        source_id=place.source_id(f"|repo.pushed|{name}"),
        subject=bounded_subject(f"{name}@{pushed.branch}"),
        version=version(pushed.at),
        occurred_at=pushed.at,
        accepted_at=place.delivery.received_at,
        payload=RepoPushed(
            repository=name, branch=pushed.branch, before=pushed.before, after=pushed.after, forced=pushed.forced
        ),
    )
