"""Issues, merge requests and notes. What GitLab marks confidential or internal stays there."""

from __future__ import annotations

from cairn_gateway.sources.gitlab.payloads import IssuePayload, MergeRequestPayload, NotePayload
from cairn_gateway.sources.model import Delivery, Translation
from cairn_shared.documents import text
from cairn_shared.documents.build import document_event
from cairn_shared.documents.references import references
from cairn_shared.documents.times import version
from cairn_shared.events import EventType, SourceDocument
from cairn_shared.runbooks.noise import without_comments

_RANKS = {"open": 0}
"""Times are whole seconds: within one the first state is known, the others come in the order of their arrival."""
_CONFIDENTIAL = Translation(ignored="confidential")


def translate_issue(payload: IssuePayload, delivery: Delivery) -> Translation:
    """An issue in its present state; one that became confidential is taken out of the index."""
    return _main("issue", "#", payload, delivery)


def translate_merge_request(payload: MergeRequestPayload, delivery: Delivery) -> Translation:
    """A merge request in its present state."""
    return _main("pull_request", "!", payload, delivery)


def translate_note(payload: NotePayload, delivery: Delivery) -> Translation:
    """A note as a part of the issue, merge request or commit that it hangs on."""
    note, place = payload.object_attributes, payload.place(delivery)
    parent = payload.issue or payload.merge_request
    if note.internal or note.confidential or (parent and parent.confidential):
        return _CONFIDENTIAL
    if note.system:
        return Translation(ignored="a note of the system")
    if payload.commit and note.noteable_type == "Commit":
        suffix, about = f"@{payload.commit.id}", payload.commit.message.partition("\n")[0]
    elif parent and parent.iid is not None:
        suffix, about = f"{'#' if payload.issue else '!'}{parent.iid}", parent.title or ""
    else:
        return Translation(ignored=f"a note on a {note.noteable_type[:40]}")
    at = note.updated_at or note.created_at or delivery.received_at
    author = payload.user.shown() if payload.user else None
    part = f"comment-{note.id}"
    return Translation(
        [
            document_event(
                "comment",
                SourceDocument(
                    title=text.title(f"Comment on {suffix[:13]}:", about),
                    body=text.body(without_comments(note.note or ""), {"By": author, "Date": at.isoformat()}),
                    part=part,
                    url=note.url,
                    service=place.service,
                    author=author,
                    references=references([note.note]),
                ),
                source=place.source,
                source_id=place.source_id(f"{suffix}|{part}"),
                subject=place.subject(suffix),
                version=version(at, 0 if note.action == "create" else 1),
                occurred_at=at,
                accepted_at=delivery.received_at,
            )
        ]
    )


def _main(kind: EventType, sign: str, payload: IssuePayload, delivery: Delivery) -> Translation:
    about, place = payload.object_attributes, payload.place(delivery)
    hidden = bool(about.confidential)
    labels = [label.title for label in payload.labels or [] if label.title]
    suffix = f"{sign}{about.iid}"
    at = about.time() or delivery.received_at
    branches = f"{about.source_branch} into {about.target_branch}" if about.source_branch else None
    return Translation(
        [
            document_event(
                kind,
                SourceDocument(
                    title=suffix if hidden else text.title(about.title) or suffix,
                    body=""
                    if hidden
                    else text.body(
                        without_comments(about.description or ""),
                        {
                            "Merge request" if sign == "!" else "Issue": place.subject(suffix),
                            "State": about.state,
                            "Branches": branches,
                            "Merge commit": about.merge_commit_sha,
                            "Labels": ", ".join(labels),
                            "Assigned to": ", ".join(filter(None, (user.shown() for user in payload.assignees or []))),
                        },
                    ),
                    deleted=hidden,
                    url=about.url,
                    service=place.service,
                    status=about.state,
                    labels={} if hidden else {f"label:{label}": "true" for label in labels},
                    references=[] if hidden else references([about.title, about.description]),
                ),
                source=place.source,
                source_id=place.source_id(f"{suffix}|{kind}"),
                subject=place.subject(suffix),
                version=version(at, _RANKS.get(about.action or "", 1)),
                occurred_at=at,
                accepted_at=delivery.received_at,
            )
        ]
    )
