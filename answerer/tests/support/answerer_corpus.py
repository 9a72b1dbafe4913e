"""Passages, hits and an index in memory: the runbook that the tests ask about."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from cairn_answerer.model import CorpusState, Passage
from cairn_shared.api.search import Gate, HalfVerdict, Hit, SearchResponse
from cairn_shared.errors import Unavailable

DOCUMENT = uuid.UUID("11111111-1111-4111-8111-111111111111")


TITLE = "PostgreSQL replica, fallen behind"


STEPS = (
    "**Measure the lag.** Run `SELECT pg_last_wal_replay_lsn();` on the standby and wait 5 minutes.",
    (
        "**Look at the slot.** Do not drop the slot while the standby needs it.\n\n"
        "```bash\nkubectl -n $NAMESPACE exec <pod> -- df -h /var/lib/postgresql\n```"
    ),
    (
        "**Give the slot room.** Set `max_slot_wal_keep_size` to 200GB:\n\n"
        "```sql\nALTER SYSTEM SET max_slot_wal_keep_size = '200GB';\nSELECT pg_reload_conf();\n```"
    ),
    "**Delete the stuck pod.** `kubectl -n $NAMESPACE delete pod <pod> --grace-period=30` restarts the standby.",
)


def step_id(number: int, document: uuid.UUID = DOCUMENT) -> uuid.UUID:
    return uuid.uuid5(document, str(number))


def make_passage(number: int = 1, text: str | None = None, **changes: Any) -> Passage:
    values: dict[str, Any] = {
        "step_id": step_id(number),
        "document_id": DOCUMENT,
        "kind": "runbook",
        "runbook_id": "pg-replica",
        "title": TITLE,
        "number": number,
        "label": str(number),
        "section": "Steps",
        "text": text if text is not None else STEPS[number - 1],
        "version": 3,
        "content_sha": f"sha-{number}",
        "score": 1.0 / number,
    }
    return Passage(**{**values, **changes})


def make_hit(number: int = 1, text: str | None = None, **changes: Any) -> Hit:
    values: dict[str, Any] = {
        "kind": "runbook",
        "document_id": DOCUMENT,
        "step_id": step_id(number),
        "runbook_id": "pg-replica",
        "source": "api",
        "title": TITLE,
        "step": number,
        "label": str(number),
        "section": "Steps",
        "text": text if text is not None else STEPS[number - 1],
        "path": "postgresql/replica.md",
        "line_start": 10 * number,
        "line_end": 10 * number + 5,
        "version": 3,
        "content_sha": f"sha-{number}",
        "score": 1.0 / number,
        "features": {},
    }
    return Hit(**{**values, **changes})


def make_event(text: str, *, kind: str = "log", title: str = "orders", **changes: Any) -> Hit:
    document = uuid.uuid5(uuid.NAMESPACE_OID, text)
    values: dict[str, Any] = {
        "kind": kind,
        "document_id": document,
        "step_id": step_id(1, document),
        "runbook_id": "log:orders",
        "source": "logs",
        "title": title,
        "section": "",
        "path": None,
        "line_start": None,
        "line_end": None,
        "occurred_at": datetime(2026, 11, 20, tzinfo=UTC),
    }
    return make_hit(1, text, **{**values, **changes})


def verdict(hits: Sequence[Hit], *, enough: bool) -> HalfVerdict | None:
    if not hits:
        return None
    return HalfVerdict(document_id=hits[0].document_id, confidence=0.9 if enough else 0.1, certain=False, enough=enough)


def make_search(
    *hits: Hit,
    enough: bool = True,
    runbooks: bool | None = None,
    events: bool | None = None,
    degraded: Sequence[str] = (),
    epoch: int = 1,
) -> SearchResponse:
    """`enough` holds for both halves of the corpus, `runbooks` and `events` for one."""
    of_runbooks = verdict(
        [hit for hit in hits if hit.kind == "runbook"], enough=enough if runbooks is None else runbooks
    )
    of_events = verdict([hit for hit in hits if hit.kind != "runbook"], enough=enough if events is None else events)
    return SearchResponse(
        results=list(hits),
        mode="keyword" if "embedder" in degraded else "hybrid",
        degraded=list(degraded),
        gate=Gate(
            best_cosine=0.8,
            best_coverage=0.7,
            identifiers_asked=[],
            identifiers_found=[],
            routed=False,
            enough=any(half.enough for half in (of_runbooks, of_events) if half),
            runbooks=of_runbooks,
            events=of_events,
        ),
        epoch=epoch,
        fingerprint="minilm",
        timings={},
    )


class MemoryCorpus:
    """Corpus in memory; `away` makes every call fail."""

    def __init__(self, steps: Sequence[Passage] = ()) -> None:
        self.steps = list(steps)
        self.epoch = 1
        self.away = False
        self.known: dict[str, int] = {"pg-replica": 3}
        self.ended: set[uuid.UUID] = set()

    def _check(self) -> None:
        if self.away:
            raise Unavailable("postgres")

    async def state(self) -> CorpusState:
        self._check()
        return CorpusState(self.epoch, "minilm", datetime(2026, 11, 30, tzinfo=UTC), 0.4)

    async def check(self, dependencies: Mapping[uuid.UUID, str]) -> tuple[CorpusState, bool]:
        known = {step.step_id: step.content_sha for step in self.steps}
        unchanged = all(known.get(step) == sha for step, sha in dependencies.items())
        return await self.state(), unchanged

    async def procedure(self, document_id: uuid.UUID) -> list[Passage]:
        self._check()
        return [step for step in self.steps if step.document_id == document_id]

    async def named(self, runbook_ids: Sequence[str], titles: Sequence[str]) -> dict[str, str]:
        self._check()
        return {
            step.runbook_id: step.title for step in self.steps if step.runbook_id in runbook_ids or step.title in titles
        }

    async def revisions(self, runbook_ids: Sequence[str]) -> dict[str, int]:
        self._check()
        return {name: self.known[name] for name in runbook_ids if name in self.known}

    async def settled(self, event_ids: Sequence[uuid.UUID]) -> set[uuid.UUID]:
        self._check()
        return self.ended & set(event_ids)
