"""GitLab's project and group webhooks (docs.gitlab.com, "Webhook events")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import Field

from cairn_gateway.sources.gitlab import discussions, payloads, pipelines, pushes
from cairn_gateway.sources.incoming import Incoming, parse
from cairn_gateway.sources.model import Delivery, RunbookRepositories, Translation
from cairn_shared.errors import InvalidInput


class _Kind(Incoming):
    object_kind: Annotated[str, Field(min_length=1)]


_TRANSLATORS: dict[str, Callable[[Delivery], Translation]] = {
    "merge_request": lambda at: discussions.translate_merge_request(parse(payloads.MergeRequestPayload, at.body), at),
    "issue": lambda at: discussions.translate_issue(parse(payloads.IssuePayload, at.body), at),
    "work_item": lambda at: discussions.translate_issue(parse(payloads.IssuePayload, at.body), at),
    "note": lambda at: discussions.translate_note(parse(payloads.NotePayload, at.body), at),
    "pipeline": lambda at: pipelines.translate_pipeline(parse(payloads.PipelinePayload, at.body), at),
    "deployment": lambda at: pipelines.translate_deployment(parse(payloads.DeploymentPayload, at.body), at),
}


def translate(delivery: Delivery, repositories: RunbookRepositories) -> Translation:
    """The events of one delivery.

    Raises:
        Malformed, InvalidInput: the payload cannot be read or lacks a field, or comes from a system hook: that one
            tells of every project on the server, which nobody meant to make searchable here.
    """
    if delivery.header("x-gitlab-event").lower() == "system hook":
        raise InvalidInput("system hooks are not taken; add a project or group webhook", field="X-Gitlab-Event")
    kind = parse(_Kind, delivery.body).object_kind
    if kind == "push":
        return pushes.translate_push(parse(payloads.Push, delivery.body), delivery, repositories)
    translator = _TRANSLATORS.get(kind)
    if translator is None:
        return Translation(ignored=f"event type {kind[:60]}")
    return translator(delivery)
