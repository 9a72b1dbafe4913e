"""`/webhooks/{source}`: deliveries that prove themselves by a shared secret, on the raw body."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header

from cairn_gateway.dependencies import Gateway
from cairn_gateway.routes.problems import problems
from cairn_gateway.routes.raw import Accepted, RawDelivery, takes

router = APIRouter(prefix="/webhooks", tags=["webhooks"])

_JSON = "application/json"
_FORM = "application/x-www-form-urlencoded"
_ANSWERS = problems(400, 413, 422)


@router.post("/github", status_code=202, response_model=Accepted, responses=_ANSWERS, openapi_extra=takes(_JSON, _FORM))
async def take_github(
    delivery: RawDelivery,
    state: Gateway,
    x_github_event: Annotated[str, Header(description="The type of the event.")] = "",
    x_hub_signature_256: Annotated[str, Header(description="`sha256=` and the HMAC of the body.")] = "",
) -> Accepted:
    """A delivery of GitHub, or of a forge that signs and speaks like it (Gitea, Forgejo)."""
    del x_github_event, x_hub_signature_256  # read from the delivery; named here for the API's description
    return Accepted.of(await state.intake.webhook("github", delivery))


@router.post("/gitlab", status_code=202, response_model=Accepted, responses=_ANSWERS, openapi_extra=takes(_JSON))
async def take_gitlab(
    delivery: RawDelivery,
    state: Gateway,
    x_gitlab_token: Annotated[str, Header(description="The webhook's secret token.")] = "",
) -> Accepted:
    """A delivery of a project or group webhook of GitLab."""
    del x_gitlab_token
    return Accepted.of(await state.intake.webhook("gitlab", delivery))


@router.post("/jira", status_code=202, response_model=Accepted, responses=_ANSWERS, openapi_extra=takes(_JSON))
async def take_jira(
    delivery: RawDelivery,
    state: Gateway,
    x_hub_signature: Annotated[str, Header(description="`sha256=` and the HMAC of the body.")] = "",
) -> Accepted:
    """A delivery of Jira."""
    del x_hub_signature
    return Accepted.of(await state.intake.webhook("jira", delivery))


@router.post("/alertmanager", status_code=202, response_model=Accepted, responses=_ANSWERS, openapi_extra=takes(_JSON))
async def take_alertmanager(
    delivery: RawDelivery,
    state: Gateway,
    authorization: Annotated[str, Header(description="`Bearer` and ALERTMANAGER_TOKEN.")] = "",
) -> Accepted:
    """A notification of Alertmanager (`webhook_config` with `http_config.authorization`)."""
    del authorization
    return Accepted.of(await state.intake.webhook("alertmanager", delivery))


@router.post("/pagerduty", status_code=202, response_model=Accepted, responses=_ANSWERS, openapi_extra=takes(_JSON))
async def take_pagerduty(
    delivery: RawDelivery,
    state: Gateway,
    x_pagerduty_signature: Annotated[
        str, Header(description="`v1=` and the HMAC of the body, several by commas.")
    ] = "",
) -> Accepted:
    """A delivery of a version 3 webhook subscription of PagerDuty."""
    del x_pagerduty_signature
    return Accepted.of(await state.intake.webhook("pagerduty", delivery))
