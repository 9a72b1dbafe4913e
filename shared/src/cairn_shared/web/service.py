"""The frame of an HTTP process: app with the common routes and middlewares, and the server that runs it."""

from __future__ import annotations

import time
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.types import ASGIApp, Lifespan, Message, Receive, Scope, Send

from cairn_shared import context
from cairn_shared.health import Readiness
from cairn_shared.logging import get_logger
from cairn_shared.settings import ServiceSettings
from cairn_shared.web import problem
from cairn_shared.web.arrival import note_arrival
from cairn_shared.web.bodies import BodyBudget, BodyLimit
from cairn_shared.web.headers import SecurityHeaders
from cairn_shared.web.protocol import ConnectionPolicy, bounded_protocol
from cairn_shared.web.service_token import PROBES, ServiceToken
from cairn_shared.web.shedding import Shedding, ShedPolicy

log = get_logger(__name__)


def create_service(
    name: str,
    settings: ServiceSettings,
    readiness: Readiness,
    registry: CollectorRegistry,
    *,
    lifespan: Lifespan[FastAPI],
    max_body_bytes: int = 1024 * 1024,
    body_limits: dict[str, int] | None = None,
    shed: ShedPolicy | None = None,
    internal: bool = False,
    description: str = "",
    **extra: Any,
) -> FastAPI:
    """An app with `/health`, `/health/ready`, `/metrics`, problem details, request ids and a body limit.

    `body_limits` gives path prefixes a limit of their own; the first that fits counts. `shed` says what is refused
    where too much is asked at once. An `internal` one serves who has the service token, where one is set.
    """
    if not settings.api_docs:
        extra |= {"docs_url": None, "redoc_url": None, "openapi_url": None}
    app = FastAPI(title=name, version=settings.app_version, description=description, lifespan=lifespan, **extra)
    problem.install(app)
    budget = BodyBudget(settings.bodies_mib * 1024 * 1024)
    app.add_middleware(BodyLimit, limit=max_body_bytes, limits=body_limits, budget=budget)
    if internal:
        app.add_middleware(ServiceToken, settings=settings)
    if shed is not None:
        app.add_middleware(Shedding, policy=shed, registry=registry)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(RequestIds)

    @app.get("/health", tags=["operations"])
    async def health() -> dict[str, str]:
        """The process is alive."""
        return {"status": "ok", "service": name, "version": settings.app_version}

    @app.get("/health/ready", tags=["operations"], response_model=None)
    async def ready() -> dict[str, Any] | Response:
        """The process can do its work; 503 names what fails."""
        failures = await readiness.failures()
        if failures:
            return problem.problem(503, "Not ready", f"waiting for {', '.join(sorted(failures))}", failures=failures)
        return {"status": "ready", "service": name}

    @app.get("/metrics", tags=["operations"], response_class=Response)
    async def metrics() -> Response:
        """Prometheus metrics."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return app


def serve(app: FastAPI, settings: ServiceSettings) -> None:
    """Run until SIGTERM or SIGINT, then finish what is in flight within the shutdown time."""
    uvicorn.run(
        app,
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http=bounded_protocol(ConnectionPolicy(settings.header_timeout, settings.connections_per_address)),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(settings.shutdown_timeout),
        timeout_keep_alive=30,
        proxy_headers=False,
    )


class RequestIds:
    """Adopt or make the request id and traceparent, give the request id back in the answer, and log the request.

    Every other line that is logged meanwhile has both ids as well (`cairn_shared.logging`). The path is logged without
    its query, which may hold what somebody searched for.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        note_arrival(scope)
        headers = dict(scope["headers"])
        rid, _ = context.adopt(
            headers.get(b"x-request-id", b"").decode("latin-1"), headers.get(b"traceparent", b"").decode("latin-1")
        )

        started = time.perf_counter()
        status = 499  # as nginx says it: the client went away before an answer began

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), (b"x-request-id", rid.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            if scope["path"] not in PROBES:
                took = round((time.perf_counter() - started) * 1000, 1)
                log.info("request", method=scope["method"], path=scope["path"], status=status, ms=took)
