"""Tickets and their comments: one document a ticket, one part a comment."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import TypeVar

from cairn_gateway.sources.incoming import parse
from cairn_gateway.sources.jira.payloads import Comment, Issue, Payload, comment_number, issue_number
from cairn_gateway.sources.jira.rich_text import plain
from cairn_gateway.sources.leaving_out import dotted
from cairn_gateway.sources.model import Delivery, Translation
from cairn_shared.documents import text
from cairn_shared.documents.build import document_event
from cairn_shared.documents.references import references
from cairn_shared.documents.times import version
from cairn_shared.errors import InvalidInput
from cairn_shared.events import Event, SourceDocument

SOURCE = "jira"
ValueT = TypeVar("ValueT")
_LAST = 999
NO_NAMES: Mapping[str, str] = MappingProxyType({})
_ISSUE_EVENTS = {"jira:issue_created": 0, "jira:issue_updated": 1, "jira:issue_deleted": _LAST}
_COMMENT_EVENTS = {"comment_created": 0, "comment_updated": 1, "comment_deleted": _LAST}


def translate(delivery: Delivery, names_known: Mapping[str, str] = NO_NAMES) -> Translation:
    """The events of one delivery. `X-Atlassian-Webhook-Identifier` stays the same when Jira tries again.

    What only some people may read in Jira (a security level, a restricted or internal comment) is taken out of the
    index instead of into it.

    `names_known` are the keys of issues by `issue_number`: those that the translation `asks` for without them.

    Raises:
        Malformed, InvalidInput: the payload cannot be read, or lacks what its event needs.
    """
    payload = parse(Payload, delivery.body)
    # The webhook of a workflow says nothing of its event: it sends the issue as it is.
    kind = payload.webhookEvent or ("jira:issue_updated" if payload.issue else None)
    if kind is None:
        raise InvalidInput("webhookEvent: the payload says neither what happened nor to which issue", field="issue")
    delivery_id = delivery.id_from("x-atlassian-webhook-identifier")
    if kind in _ISSUE_EVENTS:
        issue = _required(payload.issue, "issue", payload)
        events = [_issue_event(issue, kind, payload, delivery, delivery_id)]
        events += [_moved_event(old, payload, delivery, delivery_id) for old in _old_keys(issue, payload)]
        if payload.comment and kind != "jira:issue_deleted":
            events.append(_comment_event(payload.comment, issue, payload, delivery, delivery_id))
        names = dict.fromkeys(filter(None, [issue_number(issue)]), issue.key)
        return Translation(events, names=names).without(payload)
    if kind in _COMMENT_EVENTS:
        comment = _required(payload.comment, "comment", payload)
        named = payload.issue or _issue_of(comment, names_known)
        if named is None:
            number = comment_number(comment)
            if number is None:
                raise InvalidInput("issue: neither it nor `comment.self` says which issue this is", field="issue")
            return Translation(ignored=f"a comment on an issue that is not known here: {number}", asks=(number,))
        return Translation([_comment_event(comment, named, payload, delivery, delivery_id)]).without(payload)
    return Translation(ignored=f"event type {kind[:60]}")


def _issue_of(comment: Comment, names_known: Mapping[str, str]) -> Issue | None:
    """Jira Server sends comments without their issue; the comment's address names it, mostly by a number."""
    number = comment_number(comment)
    if number is None:
        return None
    named = number.rpartition("|")[2]
    key = names_known.get(number) if named.isdecimal() else named
    return Issue(key=key, self=comment.self) if key else None


def _issue_event(issue: Issue, kind: str, payload: Payload, delivery: Delivery, delivery_id: str) -> Event:
    fields = issue.fields
    at = fields.updated or payload.timestamp or delivery.received_at
    if kind == "jira:issue_deleted":
        at = max(at, payload.timestamp or at)
    return ticket_event(
        issue,
        at=at,
        rank=_ISSUE_EVENTS[kind],
        deleted=kind == "jira:issue_deleted",
        source_id=f"{delivery_id}|{issue.key}|{kind}",
        received_at=delivery.received_at,
    )


def ticket_event(
    issue: Issue, *, at: datetime, rank: int, deleted: bool, source_id: str, received_at: datetime
) -> Event:
    """The main part of a ticket in its present state, from a webhook or from the API."""
    fields = issue.fields
    hidden = deleted or fields.security is not None
    components = [one.name for one in fields.components or [] if one.name]
    labels = fields.labels or []
    reporter = fields.reporter.shown() if fields.reporter else None
    status = fields.status.name if fields.status else None
    priority = fields.priority.name if fields.priority else None
    prose = "\n\n".join(filter(None, [plain(fields.description), plain(fields.environment)]))
    document = SourceDocument(
        title=text.title(issue.key, fields.summary),
        body=text.body(
            prose,
            {
                "Ticket": issue.key,
                "Type": fields.issuetype.name if fields.issuetype else None,
                "Status": status,
                "Resolution": fields.resolution.name if fields.resolution else None,
                "Priority": priority,
                "Project": fields.project.name if fields.project else None,
                "Components": ", ".join(components),
                "Labels": ", ".join(labels),
                "Fixed in": ", ".join(one.name for one in fields.fixVersions or [] if one.name),
                "Reporter": reporter,
                "Assigned to": fields.assignee.shown() if fields.assignee else None,
            },
        ),
        url=issue.url(),
        service=components[0] if components else (fields.project.name if fields.project else None),
        severity=priority,
        status=status,
        author=reporter,
        labels={f"label:{label}": "true" for label in labels},
        references=[one for one in references([fields.summary, prose]) if one != issue.key],
    )
    if hidden:
        document = SourceDocument(title=issue.key, url=issue.url(), deleted=True)
    return document_event(
        "ticket",
        document,
        source=SOURCE,
        source_id=source_id,
        subject=issue.key,
        version=version(at, rank),
        occurred_at=at,
        accepted_at=received_at,
    )


def _old_keys(issue: Issue, payload: Payload) -> list[str]:
    """Keys that the issue had before it was moved to another project."""
    items = payload.changelog.items if payload.changelog else None
    old = [change.fromString for change in items or [] if change.field.lower() == "key" and change.fromString]
    return [key.upper() for key in old if key.upper() != issue.key]


def _moved_event(old: str, payload: Payload, delivery: Delivery, delivery_id: str) -> Event:
    at = payload.timestamp or delivery.received_at
    return document_event(
        "ticket",
        SourceDocument(title=old, deleted=True),
        source=SOURCE,
        source_id=f"{delivery_id}|{old}|moved",
        subject=old,
        version=version(at, _LAST),
        occurred_at=at,
        accepted_at=delivery.received_at,
    )


def _comment_event(comment: Comment, issue: Issue, payload: Payload, delivery: Delivery, delivery_id: str) -> Event:
    kind = payload.webhookEvent or ""
    deleted = kind == "comment_deleted" or payload.issue_event_type_name == "issue_comment_deleted"
    at = comment.updated or comment.created or payload.timestamp or delivery.received_at
    return ticket_comment_event(
        comment,
        issue,
        at=at,
        rank=_LAST if deleted else _COMMENT_EVENTS.get(kind, 1),
        deleted=deleted,
        source_id=f"{delivery_id}|{issue.key}|comment-{comment.id}",
        received_at=delivery.received_at,
    )


def ticket_comment_event(
    comment: Comment, issue: Issue, *, at: datetime, rank: int, deleted: bool, source_id: str, received_at: datetime
) -> Event:
    """A comment as a part of its ticket, from a webhook or from the API."""
    said = plain(comment.body)
    author = comment.author.shown() if comment.author else None
    part = f"comment-{comment.id}"
    url = issue.url()
    document = SourceDocument(
        title=text.title(f"Comment on {issue.key}:", issue.fields.summary),
        body=text.body(said, {"By": author, "Date": at.isoformat()}),
        part=part,
        url=f"{url}?focusedCommentId={comment.id}" if url else None,
        author=author,
        references=[one for one in references([said]) if one != issue.key],
    )
    if deleted or comment.restricted() or issue.fields.security is not None:
        document = SourceDocument(title=f"Comment on {issue.key}", part=part, deleted=True)
    return document_event(
        "comment",
        document,
        source=SOURCE,
        source_id=source_id,
        subject=issue.key,
        version=version(at, rank),
        occurred_at=at,
        accepted_at=received_at,
    )


def _required(value: ValueT | None, field: str, payload: Payload) -> ValueT:
    if value is None:
        unreadable = next((one for one in payload.left_out if one.place[0] == field), None)
        if unreadable is not None:
            raise InvalidInput(str(unreadable), field=dotted(unreadable.place))
        raise InvalidInput(f"{field}: this event needs it", field=field)
    return value
