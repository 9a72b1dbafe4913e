"""GitHub webhooks, and those of forges that send GitHub's format (Gitea, Forgejo)."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs

from cairn_gateway.sources.errors import Malformed
from cairn_gateway.sources.github import discussions, operations, payloads, pushes
from cairn_gateway.sources.incoming import parse
from cairn_gateway.sources.model import Delivery, RunbookRepositories, Translation
from cairn_shared.errors import InvalidInput

_TRANSLATORS: dict[str, Callable[[bytes, Delivery], Translation]] = {
    "issues": lambda body, at: discussions.translate_issue(parse(payloads.IssuesPayload, body), at),
    "issue_comment": lambda body, at: discussions.translate_issue_comment(
        parse(payloads.IssueCommentPayload, body), at
    ),
    "pull_request": lambda body, at: discussions.translate_pull_request(parse(payloads.PullRequestPayload, body), at),
    "pull_request_review": lambda body, at: discussions.translate_review(parse(payloads.ReviewPayload, body), at),
    "pull_request_review_comment": lambda body, at: discussions.translate_review_comment(
        parse(payloads.ReviewCommentPayload, body), at
    ),
    "deployment": lambda body, at: operations.translate_deployment(parse(payloads.DeploymentPayload, body), at),
    "deployment_status": lambda body, at: operations.translate_deployment_status(
        parse(payloads.DeploymentStatusPayload, body), at
    ),
    "release": lambda body, at: operations.translate_release(parse(payloads.ReleasePayload, body), at),
    "workflow_run": lambda body, at: operations.translate_workflow_run(parse(payloads.WorkflowRunPayload, body), at),
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
        return pushes.translate_push(parse(payloads.Push, _json(delivery)), delivery, repositories)
    translator = _TRANSLATORS.get(event)
    if translator is None:
        return Translation(ignored=f"event type {event[:60]}")
    return translator(_json(delivery), delivery)


def _json(delivery: Delivery) -> bytes:
    """The JSON of the delivery, out of its form field when the hook's content type is the form."""
    if not delivery.header("content-type").lower().startswith("application/x-www-form-urlencoded"):
        return delivery.body
    try:
        fields = parse_qs(delivery.body.decode("ascii"), strict_parsing=True, max_num_fields=20, errors="strict")
        return fields["payload"][0].encode()
    except (ValueError, KeyError) as exc:
        raise Malformed("the form has no readable field `payload`", field="payload") from exc
