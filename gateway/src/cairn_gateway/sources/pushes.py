"""What a push asks the consumer to do, the same from every forge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from cairn_gateway.sources.place import Place
from cairn_shared.documents.build import bounded_subject
from cairn_shared.documents.times import version
from cairn_shared.events import Event, PushCut, RepoPushed, make_event

_COMMIT = re.compile(r"(?=.*[1-9a-f])[0-9a-f]{40,64}")


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


@dataclass(frozen=True)
class Cut:
    """A push of which the sender listed some commits only; `total` of them where it says so."""

    branch: str | None
    before: str | None
    after: str | None
    default_branch: str | None
    listed: Sequence[str]
    total: int | None
    at: datetime


def rest_of(cut: Cut, place: Place, apis: frozenset[str]) -> tuple[Event | None, str]:
    """What asks the consumer for the commits that were not listed, and a note; without a host to ask the note only."""
    told = f"the sender lists {len(cut.listed)} of {f'{cut.total} commits' if cut.total else 'more commits'}"
    after = _commit(cut.after)
    if place.host not in apis or after is None:
        return None, (
            f"{told}; to have the others fetched name {place.host} in GITHUB_API_URL, GITLAB_API_URL or GITEA_API_URL "
            f"and set its token; `cairn backfill git` loads them from a clone"
        )
    # A new branch brings what the default branch has not; a new default branch brings everything.
    default = cut.default_branch if cut.default_branch != cut.branch else None
    payload = PushCut(
        host=place.host,
        name=place.name,
        prefix=place.prefix,
        service=place.service,
        base=_commit(cut.before) or default,
        after=after,
        listed=list(cut.listed),
    )
    event = make_event(
        "push.cut",
        source=place.source,
        source_id=f"push.cut|{payload.key()}",
        subject=bounded_subject(f"{place.prefix}@{after}"),
        version=version(cut.at),
        occurred_at=cut.at,
        accepted_at=place.delivery.received_at,
        payload=payload,
    )
    return event, f"{told}; the others are fetched from {place.host}"


def _commit(value: str | None) -> str | None:
    """The id of a commit; None for that of zeros, which means that there is none."""
    lower = (value or "").lower()
    return lower if _COMMIT.fullmatch(lower) else None
