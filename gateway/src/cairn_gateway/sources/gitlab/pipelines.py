"""Pipelines and deployments of GitLab."""

from __future__ import annotations

from cairn_gateway.sources.gitlab.payloads import DeploymentPayload, PipelinePayload
from cairn_gateway.sources.model import Delivery, Translation
from cairn_shared.documents import text
from cairn_shared.documents.build import document_event
from cairn_shared.documents.references import references
from cairn_shared.documents.times import version
from cairn_shared.events import SourceDocument

_PIPELINE = {"created": 0, "waiting_for_resource": 1, "preparing": 2, "pending": 3, "running": 4}
_DEPLOYMENT = {"created": 0, "running": 1}


def translate_pipeline(payload: PipelinePayload, delivery: Delivery) -> Translation:
    """A pipeline in its present state, with the jobs that failed.

    A pipeline has no `updated_at`: the latest time of it and of its jobs says which state is the later one.
    """
    pipeline, place = payload.object_attributes, payload.place(delivery)
    builds = payload.builds or []
    times = [pipeline.created_at, pipeline.finished_at]
    times += [time for build in builds for time in (build.started_at, build.finished_at)]
    at = max((time for time in times if time is not None), default=delivery.received_at)
    commit = payload.commit.message.partition("\n")[0] if payload.commit else ""
    author = payload.user.shown() if payload.user else None
    failed = [
        " ".join(filter(None, [build.name, f"({build.stage})" if build.stage else "", build.failure_reason]))
        for build in builds
        if build.status == "failed"
    ]
    suffix = f"/pipeline/{pipeline.id}"
    return Translation(
        [
            document_event(
                "deployment",
                SourceDocument(
                    title=text.title(f"Pipeline {pipeline.id} {pipeline.status}", f"on {pipeline.ref}"),
                    body=text.body(
                        None,
                        {
                            "Repository": place.prefix,
                            "Status": pipeline.status,
                            "Ref": pipeline.ref,
                            "Commit": " ".join(filter(None, [pipeline.sha, commit])),
                            "Trigger": pipeline.source,
                            "By": author,
                            "Seconds": f"{pipeline.duration:g}" if pipeline.duration else None,
                        },
                        {"Failed jobs": failed},
                    ),
                    url=pipeline.url,
                    service=place.service,
                    severity="error" if pipeline.status == "failed" else None,
                    status=pipeline.status,
                    author=author,
                    references=references([commit, pipeline.ref]),
                ),
                source=place.source,
                source_id=place.source_id(suffix),
                subject=place.subject(suffix),
                version=version(at, _PIPELINE.get(pipeline.status, 5)),
                occurred_at=at,
                accepted_at=delivery.received_at,
            )
        ]
    )


def translate_deployment(payload: DeploymentPayload, delivery: Delivery) -> Translation:
    """A deployment in its present state."""
    place, at = payload.place(delivery), payload.status_changed_at or delivery.received_at
    suffix = f"/deployment/{payload.deployment_id}"
    author = payload.user.shown() if payload.user else None
    return Translation(
        [
            document_event(
                "deployment",
                SourceDocument(
                    title=text.title(
                        f"Deployment of {place.service} to {payload.environment or 'unknown'}:", payload.status
                    ),
                    body=text.body(
                        payload.commit_title,
                        {
                            "Repository": place.prefix,
                            "Environment": payload.environment,
                            "Status": payload.status,
                            "Ref": payload.ref,
                            "Commit": payload.short_sha,
                            "By": author,
                        },
                    ),
                    url=payload.deployable_url,
                    service=place.service,
                    severity="error" if payload.status == "failed" else None,
                    status=payload.status,
                    author=author,
                    labels={"environment": payload.environment} if payload.environment else {},
                    references=references([payload.commit_title, payload.ref]),
                ),
                source=place.source,
                source_id=place.source_id(f"{suffix}|{payload.status}"),
                subject=place.subject(suffix),
                version=version(at, _DEPLOYMENT.get(payload.status, 2)),
                occurred_at=at,
                accepted_at=delivery.received_at,
            )
        ]
    )
