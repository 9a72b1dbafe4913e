"""GitLab's project and group webhooks (docs.gitlab.com, "Webhook events")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cairn_gateway.sources.gitlab import discussions, payloads, pipelines, pushes
from cairn_gateway.sources.incoming import Incoming, parse
from cairn_gateway.sources.model import Delivery, RunbookRepositories, Translation
from cairn_shared.errors import InvalidInput


class _Kind(Incoming):
    """What a delivery is: events about members, groups and projects have a name instead of a kind."""

    object_kind: str | None = None
    event_name: str | None = None
    project: Any = None


_TRANSLATORS: dict[str, tuple[type[Incoming], Callable[[Any, Delivery], Translation]]] = {
    "merge_request": (payloads.MergeRequestPayload, discussions.translate_merge_request),
    "issue": (payloads.IssuePayload, discussions.translate_issue),
    "work_item": (payloads.IssuePayload, discussions.translate_issue),
    "note": (payloads.NotePayload, discussions.translate_note),
    "pipeline": (payloads.PipelinePayload, pipelines.translate_pipeline),
    "deployment": (payloads.DeploymentPayload, pipelines.translate_deployment),
}
_OF_GROUPS = frozenset({"work_item", "note"})


def translate(delivery: Delivery, repositories: RunbookRepositories) -> Translation:
    """The events of one delivery. Those of a system hook are ignored: it tells of every project on the server, which
    nobody meant to make searchable here.

    Raises:
        Malformed, InvalidInput: the payload cannot be read, or lacks what its event is about.
    """
    if delivery.header("x-gitlab-event").lower() == "system hook":
        return Translation(ignored="a system hook tells of every project; add a project or group webhook")
    told = parse(_Kind, delivery.body)
    kind = told.object_kind or told.event_name
    if kind is None:
        raise InvalidInput("object_kind: the payload does not say what it is about", field="object_kind")
    if kind == "push":
        push = parse(payloads.Push, delivery.body)
        return pushes.translate_push(push, delivery, repositories).without(push)
    known = _TRANSLATORS.get(kind)
    if known is None:
        return Translation(ignored=f"event type {kind[:60]}")
    if told.project is None and kind in _OF_GROUPS:
        return Translation(ignored="an item of a group, such as an epic: it belongs to no project")
    model, translator = known
    payload = parse(model, delivery.body)
    return translator(payload, delivery).without(payload)
