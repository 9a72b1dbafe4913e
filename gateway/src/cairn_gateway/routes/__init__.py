"""The public routes, one module a noun."""

from __future__ import annotations

from fastapi import APIRouter

from cairn_gateway.routes import (
    ask,
    audit,
    backfill,
    dlq,
    events,
    executions,
    feedback,
    ingest,
    logs,
    mcp_endpoint,
    openai,
    questions,
    repos,
    runbooks,
    search,
    stats,
    status,
    users,
    verify,
    webhooks,
)

ROUTERS: tuple[APIRouter, ...] = (
    runbooks.router,
    ask.router,
    search.router,
    questions.router,
    ingest.router,
    executions.router,
    feedback.router,
    users.router,
    dlq.router,
    audit.router,
    stats.router,
    status.router,
    verify.router,
    webhooks.router,
    backfill.router,
    logs.router,
    events.router,
    repos.router,
    openai.router,
    mcp_endpoint.router,
)
