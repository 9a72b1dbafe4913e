"""Deployments, releases and workflow runs: what changed in production, and whether it worked."""

from __future__ import annotations

from cairn_gateway.sources.github.payloads import (
    Deployment,
    DeploymentPayload,
    DeploymentStatus,
    DeploymentStatusPayload,
    ReleasePayload,
    WorkflowRunPayload,
)
from cairn_gateway.sources.github.place import place_of
from cairn_gateway.sources.model import Delivery, Translation
from cairn_gateway.sources.place import Place
from cairn_shared.documents import text
from cairn_shared.documents.build import document_event
from cairn_shared.documents.references import references
from cairn_shared.documents.times import version
from cairn_shared.events import Event, SourceDocument
from cairn_shared.runbooks.noise import without_comments

_STATES = {"queued": 1, "pending": 2, "waiting": 2, "in_progress": 3, "inactive": 5}
_RUNS = {"requested": 0, "in_progress": 1, "completed": 2}
_RELEASES = {"created": 0, "prereleased": 1, "published": 2, "released": 3, "edited": 4, "unpublished": 5, "deleted": 9}


def translate_deployment(payload: DeploymentPayload, delivery: Delivery) -> Translation:
    """A deployment that was asked for."""
    return Translation([_deployment(payload.deployment, None, place_of(payload.repository, delivery))])


def translate_deployment_status(payload: DeploymentStatusPayload, delivery: Delivery) -> Translation:
    """The same document in its new state."""
    place = place_of(payload.repository, delivery)
    return Translation([_deployment(payload.deployment, payload.deployment_status, place)])


def translate_release(payload: ReleasePayload, delivery: Delivery) -> Translation:
    """A release; a deleted one is a tombstone, drafts are nobody's business yet."""
    place, release = place_of(payload.repository, delivery), payload.release
    if release.draft and payload.action != "deleted":
        return Translation(ignored="the release is a draft")
    born = release.published_at or release.created_at
    at = release.updated_at or born or delivery.received_at
    author = release.author.login if release.author else None
    return Translation(
        [
            document_event(
                "deployment",
                SourceDocument(
                    title=text.title(
                        "Release", release.tag_name, release.name if release.name != release.tag_name else ""
                    ),
                    body=text.body(
                        without_comments(release.body or ""),
                        {
                            "Tag": release.tag_name,
                            "Repository": place.prefix,
                            "Target": release.target_commitish,
                            "Author": author,
                            "Published": born.isoformat() if born else None,
                        },
                    ),
                    deleted=payload.action == "deleted",
                    url=release.html_url,
                    service=place.service,
                    status="prerelease" if release.prerelease else "released",
                    author=author,
                    references=references([release.body]),
                ),
                source=place.source,
                source_id=place.source_id(f"/release/{release.id}"),
                subject=place.subject(f"/release/{release.id}"),
                version=version(at, _RELEASES.get(payload.action or "", 3)),
                occurred_at=born or at,
                accepted_at=delivery.received_at,
            )
        ]
    )


def translate_workflow_run(payload: WorkflowRunPayload, delivery: Delivery) -> Translation:
    """A run of a workflow, from its request to its conclusion; the order of arrival is not the order of events."""
    place, run = place_of(payload.repository, delivery), payload.workflow_run
    state = run.conclusion or run.status or payload.action
    at = run.updated_at or run.created_at or delivery.received_at
    author = run.actor.login if run.actor else None
    commit = run.head_commit.message.partition("\n")[0] if run.head_commit else ""
    return Translation(
        [
            document_event(
                "deployment",
                SourceDocument(
                    title=text.title(
                        f"Workflow {run.name or run.id}", state, f"on {run.head_branch}" if run.head_branch else ""
                    ),
                    body=text.body(
                        run.display_title,
                        {
                            "Repository": place.prefix,
                            "Run": f"{run.run_number or run.id} (attempt {run.run_attempt})",
                            "Conclusion": run.conclusion,
                            "Trigger": run.event,
                            "Branch": run.head_branch,
                            "Commit": " ".join(filter(None, [run.head_sha, commit])),
                            "Actor": author,
                        },
                    ),
                    url=run.html_url,
                    service=place.service,
                    severity="error" if run.conclusion in {"failure", "timed_out", "startup_failure"} else None,
                    status=state,
                    author=author,
                    references=references([commit, run.head_branch]),
                ),
                source=place.source,
                source_id=place.source_id(f"/run/{run.id}"),
                subject=place.subject(f"/run/{run.id}"),
                version=version(at, _RUNS.get(payload.action or "", 1) + 10 * min(run.run_attempt, 90)),
                occurred_at=at,
                accepted_at=delivery.received_at,
            )
        ]
    )


def _deployment(deployment: Deployment, status: DeploymentStatus | None, place: Place) -> Event:
    state = status.state if status else "created"
    told = (status.updated_at or status.created_at) if status else deployment.created_at
    at = told or place.delivery.received_at
    author = deployment.creator.login if deployment.creator else None
    suffix = f"/deployment/{deployment.id}"
    return document_event(
        "deployment",
        SourceDocument(
            title=text.title(f"Deployment of {place.service} to {deployment.environment or 'unknown'}:", state),
            body=text.body(
                deployment.description,
                {
                    "Repository": place.prefix,
                    "Environment": deployment.environment,
                    "Ref": deployment.ref,
                    "Commit": deployment.sha,
                    "Task": deployment.task,
                    "State": state,
                    "Details": status.description if status else None,
                    "By": author,
                    "Address": status.environment_url if status else None,
                    "Log": (status.log_url or status.target_url) if status else None,
                },
            ),
            url=(status.log_url or status.target_url or status.environment_url) if status else None,
            service=place.service,
            severity="error" if state in {"failure", "error"} else None,
            status=state,
            author=author,
            labels={"environment": deployment.environment} if deployment.environment else {},
            references=references([deployment.description, deployment.ref]),
        ),
        source=place.source,
        source_id=place.source_id(f"{suffix}|{(status.id or '?') if status else 'created'}"),
        subject=place.subject(suffix),
        version=version(at, _STATES.get(state, 4) if status else 0),
        occurred_at=at,
        accepted_at=place.delivery.received_at,
    )
