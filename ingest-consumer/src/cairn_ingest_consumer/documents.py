"""Events as writes of documents. Pure: the same event always gives the same write."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import orjson

from cairn_ingest_consumer.model import MAIN_PART, DocumentFacts, PartWrite, Rank, StepDraft
from cairn_shared.errors import PermanentError
from cairn_shared.events import Event, RunbookDeleted, RunbookUpserted, SourceDocument
from cairn_shared.runbooks.facts import folded, runbook_labels


def render(event: Event) -> PartWrite:
    """The write that `event` stands for.

    Raises:
        PermanentError: the payload does not fit its type, or holds what PostgreSQL cannot store.
    """
    body = event.body()
    try:
        if isinstance(body, RunbookUpserted):
            write = _runbook(event, body)
        elif isinstance(body, RunbookDeleted):
            write = _write(event, kind="runbook", deleted=True)
        elif isinstance(body, SourceDocument):
            write = _source_document(event, body)
        else:
            raise PermanentError(f"{event.type} is not a document", stage="validate")
    except (UnicodeEncodeError, orjson.JSONEncodeError) as exc:
        raise PermanentError("holds half of a surrogate pair", stage="validate") from exc
    _refuse_nul(write)
    return write


def _runbook(event: Event, body: RunbookUpserted) -> PartWrite:
    runbook = body.runbook
    labels = runbook_labels(runbook.source)
    return _write(
        event,
        kind="runbook",
        content_sha=runbook.content_sha(),
        facts=DocumentFacts(
            title=runbook.title,
            service=runbook.service,
            severity=runbook.severity,
            owner=runbook.owner,
            tags=tuple(runbook.tags),
            alerts=folded(runbook.alerts),
            links=folded(runbook.links),
            labels=labels,
            path=runbook.path,
            commit_sha=runbook.commit,
            blob_sha=runbook.blob,
            url=runbook.url,
        ),
        steps=tuple(
            StepDraft(step.number, step.label, step.section, step.body, step.line_start, step.line_end)
            for step in runbook.steps
        ),
        rewrite=body.rewrite,
    )


def _source_document(event: Event, document: SourceDocument) -> PartWrite:
    """One step a part. The main part's title is the document's; any other part shows its own as its section."""
    if document.deleted:
        return _write(event, kind=event.type, part=document.part, deleted=True)
    body = document.body if document.body.strip() else document.title
    section = "" if document.part == MAIN_PART else document.title
    mentions = (document.title, *document.references, *document.paths)
    extra = {"author": document.author} if document.author else {}
    return _write(
        event,
        kind=event.type,
        part=document.part,
        content_sha=_sha([event.occurred_at.isoformat(), document.model_dump(mode="json")]),
        facts=DocumentFacts(
            title=document.title,
            service=document.service,
            severity=document.severity,
            status=document.status,
            links=folded(document.references),
            labels={**document.labels, **extra},
            url=document.url,
        ),
        steps=(StepDraft(1, "1", section, body, mentions=mentions),),
        count=document.count,
        first_seen=document.first_seen,
        last_seen=document.last_seen,
    )


def _write(
    event: Event,
    *,
    kind: str,
    part: str = MAIN_PART,
    deleted: bool = False,
    content_sha: str = "",
    facts: DocumentFacts | None = None,
    steps: tuple[StepDraft, ...] = (),
    **seen: object,
) -> PartWrite:
    return PartWrite(
        document_id=event.document_id(),
        part=part,
        rank=Rank(event.version, event.arrived, event.event_id),
        kind=kind,
        source=event.source,
        external_id=event.subject,
        deleted=deleted,
        facts=facts or DocumentFacts(),
        steps=steps,
        content_sha=content_sha,
        occurred_at=event.occurred_at,
        accepted_at=event.accepted_at,
        **seen,  # type: ignore[arg-type]
    )


def _sha(content: object) -> str:
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _refuse_nul(write: PartWrite) -> None:
    """PostgreSQL's text holds no NUL; whoever sends one must say what it means."""
    facts = write.facts
    texts: dict[str, Iterable[str | None]] = {
        "subject": (write.source, write.external_id),
        "part": (write.part,),
        "title": (facts.title,),
        "metadata": (facts.service, facts.severity, facts.owner, facts.status, facts.path, facts.url),
        "references": (facts.commit_sha, facts.blob_sha, *facts.tags, *facts.alerts, *facts.links),
        "labels": (*facts.labels, *facts.labels.values()),
        "body": (text for step in write.steps for text in (step.label, step.section, step.body, *step.mentions)),
    }
    for field, values in texts.items():
        for value in values:
            if value is not None and "\0" in value:
                raise PermanentError(f"{field}: holds a NUL character", stage="validate")
