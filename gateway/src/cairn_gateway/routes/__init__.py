"""The public routes, one module a noun."""

from __future__ import annotations

from fastapi import APIRouter

from cairn_gateway.routes import ask, executions, feedback, ingest, runbooks, search, status, users, verify

ROUTERS: tuple[APIRouter, ...] = (
    runbooks.router,
    ask.router,
    search.router,
    ingest.router,
    executions.router,
    feedback.router,
    users.router,
    status.router,
    verify.router,
)
