"""Whether a document of the index says what its runbook says. Pure."""

from __future__ import annotations

from cairn_shared.api.index import IndexedDocument, IndexedFacts
from cairn_shared.runbooks.facts import folded, runbook_labels
from cairn_shared.runbooks.records import Head


def is_altered(head: Head, indexed: IndexedDocument) -> bool:
    """Whether the index holds something else of the same revision, whatever it says of its content itself."""
    as_it_was = (False, head.content_sha, head.steps, 0, 0)
    found = (indexed.deleted, indexed.content_sha, indexed.steps, indexed.altered_steps, indexed.altered_chunks)
    return found != as_it_was or indexed.title not in {None, head.title} or indexed.facts not in (None, facts_of(head))


def facts_of(head: Head) -> IndexedFacts:
    """What the index should say about a runbook beside its text."""
    return IndexedFacts(
        service=head.service,
        severity=head.severity,
        owner=head.owner,
        tags=list(head.tags),
        alerts=list(folded(head.alerts)),
        links=list(folded(head.links)),
        labels=runbook_labels(head.source),
        path=head.path,
        commit=head.commit,
        blob=head.blob,
        url=head.url,
    )
