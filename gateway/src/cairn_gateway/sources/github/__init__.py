"""GitHub webhooks, and those of forges that send GitHub's format (Gitea, Forgejo)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from cairn_gateway.sources.errors import Malformed
from cairn_gateway.sources.github import discussions, operations, payloads, pushes
from cairn_gateway.sources.incoming import Incoming, parse
from cairn_gateway.sources.model import Delivery, RunbookRepositories, Translation
from cairn_shared.errors import InvalidInput

_TRANSLATORS: dict[str, tuple[type[Incoming], Callable[[Any, Delivery], Translation]]] = {
    "issues": (payloads.IssuesPayload, discussions.translate_issue),
    "issue_comment": (payloads.IssueCommentPayload, discussions.translate_issue_comment),
    "pull_request": (payloads.PullRequestPayload, discussions.translate_pull_request),
    "pull_request_review": (payloads.ReviewPayload, discussions.translate_review),
    "pull_request_review_comment": (payloads.ReviewCommentPayload, discussions.translate_review_comment),
    "pull_request_approved": (payloads.GiteaReviewPayload, discussions.translate_gitea_review),
    "pull_request_rejected": (payloads.GiteaReviewPayload, discussions.translate_gitea_review),
    "pull_request_comment": (payloads.GiteaReviewPayload, discussions.translate_gitea_review),
    "deployment": (payloads.DeploymentPayload, operations.translate_deployment),
    "deployment_status": (payloads.DeploymentStatusPayload, operations.translate_deployment_status),
    "release": (payloads.ReleasePayload, operations.translate_release),
    "workflow_run": (payloads.WorkflowRunPayload, operations.translate_workflow_run),
}


def translate(delivery: Delivery, repositories: RunbookRepositories) -> Translation:
    """The events of one delivery; an event type that means nothing to Cairn is ignored with its name.

    Raises:
        Malformed, InvalidInput: the payload cannot be read, or lacks what its event type needs.
    """
    event = delivery.header("x-github-event").lower()
    if not event:
        raise InvalidInput("the header X-GitHub-Event says nothing", field="X-GitHub-Event")
    if event == "ping":
        return Translation(ignored="ping")
    if event == "push":
        push = parse(payloads.Push, _json(delivery))
        return pushes.translate_push(push, delivery, repositories).without(push)
    known = _TRANSLATORS.get(event)
    if known is None:
        return Translation(ignored=f"event type {event[:60]}")
    model, translator = known
    payload = parse(model, _json(delivery))
    return translator(payload, delivery).without(payload)


def _json(delivery: Delivery) -> bytes:
    """The JSON of the delivery, out of its form field when the hook's content type is the form."""
    if not delivery.header("content-type").lower().startswith("application/x-www-form-urlencoded"):
        return delivery.body
    try:
        fields = parse_qs(delivery.body.decode("ascii"), strict_parsing=True, max_num_fields=20, errors="strict")
        return fields["payload"][0].encode()
    except (ValueError, KeyError) as exc:
        raise Malformed("the form has no readable field `payload`", field="payload") from exc
