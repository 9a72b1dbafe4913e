"""Issues, pull requests and what is said about them: one document each, one part per comment or review."""

from __future__ import annotations

import hashlib

from cairn_gateway.sources.github.payloads import (
    Comment,
    GiteaReviewPayload,
    Issue,
    IssueCommentPayload,
    IssuesPayload,
    PullRequest,
    PullRequestPayload,
    ReviewCommentPayload,
    ReviewPayload,
    User,
)
from cairn_gateway.sources.github.place import place_of
from cairn_gateway.sources.model import Delivery, Translation
from cairn_gateway.sources.place import Place
from cairn_shared.documents import text
from cairn_shared.documents.build import document_event
from cairn_shared.documents.references import references
from cairn_shared.documents.times import version
from cairn_shared.events import Event, EventType, SourceDocument
from cairn_shared.runbooks.noise import without_comments

# GitHub's times are whole seconds. Within one, what is born comes first and what is deleted last; every other delivery
# holds the whole state of its moment, so the one that reached us later is the later state.
_RANKS = {"opened": 0, "created": 0, "submitted": 0, "deleted": 9, "transferred": 9}
_GITEA_VERDICTS = {
    "pull_request_review_approved": "approved",
    "pull_request_review_rejected": "changes_requested",
}
_GONE = frozenset({"deleted", "transferred"})


def translate_issue(payload: IssuesPayload, delivery: Delivery) -> Translation:
    """An issue in its present state; deleted or transferred away, its tombstone."""
    return Translation([issue_event(payload.issue, payload.action, place_of(payload.repository, delivery))])


def translate_pull_request(payload: PullRequestPayload, delivery: Delivery) -> Translation:
    """A pull request in its present state."""
    return Translation(
        [pull_request_event(payload.pull_request, payload.action, place_of(payload.repository, delivery))]
    )


def translate_issue_comment(payload: IssueCommentPayload, delivery: Delivery) -> Translation:
    """The comment, and the issue as it is then: should its own delivery have been lost, this mends it."""
    place = place_of(payload.repository, delivery)
    events = [comment_event(payload.comment, "comment", payload.action, payload.issue, place)]
    if payload.issue.pull_request is None:
        events.append(issue_event(payload.issue, None, place))
    return Translation(events)


def translate_review(payload: ReviewPayload, delivery: Delivery) -> Translation:
    """A review with its verdict."""
    place = place_of(payload.repository, delivery)
    return Translation([comment_event(payload.review, "review", payload.action, payload.pull_request, place)])


def translate_gitea_review(payload: GiteaReviewPayload, delivery: Delivery) -> Translation:
    """A review as Gitea and Forgejo tell it. It has no id: one is made of all that tells it from others."""
    place, pull = place_of(payload.repository, delivery), payload.pull_request
    said, by = payload.review, _name(payload.sender)
    at = pull.time() or delivery.received_at
    told = "\0".join([by or "", said.type, said.content or "", at.isoformat()])
    review = Comment(
        id=int.from_bytes(hashlib.sha256(told.encode()).digest()[:6]),
        body=said.content,
        html_url=pull.html_url,
        user=payload.sender,
        submitted_at=at,
        state=_GITEA_VERDICTS.get(said.type),
    )
    return Translation([comment_event(review, "review", None, pull, place)])


def translate_review_comment(payload: ReviewCommentPayload, delivery: Delivery) -> Translation:
    """A comment on a line of the difference."""
    place = place_of(payload.repository, delivery)
    return Translation([comment_event(payload.comment, "review-comment", payload.action, payload.pull_request, place)])


def issue_event(issue: Issue, action: str | None, place: Place) -> Event:
    """The main part of an issue."""
    return _main(
        "issue",
        issue,
        action,
        place,
        {
            "Issue": f"{place.prefix}#{issue.number}",
            "State": " ".join(filter(None, [issue.state, issue.state_reason])),
        },
    )


def pull_request_event(pull: PullRequest, action: str | None, place: Place) -> Event:
    """The main part of a pull request."""
    state = "merged" if pull.merged or pull.merged_at else "draft" if pull.draft else pull.state
    return _main(
        "pull_request",
        pull.model_copy(update={"state": state}),
        action,
        place,
        {
            "Pull request": f"{place.prefix}#{pull.number}",
            "State": state,
            "Branches": f"{pull.head.ref} into {pull.base.ref}" if pull.head.ref and pull.base.ref else None,
            "Merge commit": pull.merge_commit_sha if state == "merged" else None,
            "Head commit": pull.head.sha,
        },
    )


def comment_event(comment: Comment, noun: str, action: str | None, issue: Issue, place: Place) -> Event:
    """One comment or review as a part of its issue's document."""
    part = f"{noun}-{comment.id}"
    at = comment.time() or issue.time() or place.delivery.received_at
    author = _name(comment.user)
    verdict = {"approved": "approved", "changes_requested": "requested changes"}.get((comment.state or "").lower())
    return document_event(
        "comment",
        SourceDocument(
            title=text.title(f"{'Review' if noun == 'review' else 'Comment'} on #{issue.number}:", issue.title),
            body=text.body(
                without_comments(comment.body or ""),
                {"By": author, "Verdict": verdict, "Path": comment.path, "Date": at.isoformat()},
            ),
            part=part,
            deleted=action in _GONE,
            url=comment.html_url,
            service=place.service,
            author=author,
            references=references([comment.body]),
            paths=[comment.path] if comment.path else [],
        ),
        source=place.source,
        source_id=place.source_id(f"#{issue.number}|{part}"),
        subject=place.subject(f"#{issue.number}"),
        version=version(at, _RANKS.get(action or "", 1)),
        occurred_at=at,
        accepted_at=place.delivery.received_at,
    )


def _main(kind: EventType, issue: Issue, action: str | None, place: Place, facts: dict[str, str | None]) -> Event:
    labels = [label.name for label in issue.labels or [] if label.name]
    author = _name(issue.user)
    at = issue.time() or place.delivery.received_at
    return document_event(
        kind,
        SourceDocument(
            title=text.title(issue.title) or f"#{issue.number}",
            body=text.body(
                without_comments(issue.body or ""),
                {
                    **facts,
                    "Author": author,
                    "Labels": ", ".join(labels),
                    "Assigned to": ", ".join(filter(None, map(_name, issue.assignees or []))),
                    "Milestone": issue.milestone.title if issue.milestone else None,
                },
            ),
            deleted=action in _GONE,
            url=issue.html_url,
            service=place.service,
            status=issue.state,
            author=author,
            labels={f"label:{label}": "true" for label in labels},
            references=references([issue.title, issue.body]),
        ),
        source=place.source,
        source_id=place.source_id(f"#{issue.number}|{kind}"),
        subject=place.subject(f"#{issue.number}"),
        version=version(at, _RANKS.get(action or "", 1)),
        occurred_at=at,
        accepted_at=place.delivery.received_at,
    )


def _name(user: User | None) -> str | None:
    return (user.login or user.shown()) if user else None
