"""What the composition root puts together of settings and clients: checks of every part, secrets, a name."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Mapping, Sequence

import httpx

from cairn_gateway.settings import GatewaySettings
from cairn_gateway.sources.signatures import Secrets
from cairn_shared import mongo, redis
from cairn_shared.errors import CairnError, Unavailable
from cairn_shared.health import Check, Readiness
from cairn_shared.kafka.producer import EventProducer
from cairn_shared.retry import until_up

TIMEOUT = 2.0
"""Seconds for one answer of a part."""


class NotKnown(CairnError):
    """Nobody can be asked about it now."""


def answers_ready(client: httpx.AsyncClient, name: str) -> Check:
    """Whether the process `name` says that it can do its work."""

    async def check() -> None:
        try:
            response = await client.get("/health/ready", timeout=TIMEOUT)
        except httpx.HTTPError as exc:
            raise Unavailable(name) from exc
        if response.status_code != 200:
            raise Unavailable(name)

    return check


def behind(name: str, clients: Sequence[httpx.AsyncClient]) -> Check:
    """Whether `name` is up, as those say whose readiness needs it; the first that answers is believed."""

    async def check() -> None:
        for client in clients:
            try:
                response = await client.get("/health/ready", timeout=TIMEOUT / len(clients))
            except httpx.HTTPError:
                continue
            if response.status_code == 200:
                return
            failures = _failures(response)
            if failures is not None:
                if name in failures:
                    raise Unavailable(name)
                return
        raise NotKnown(f"nobody can say how {name} is")

    return check


def _failures(response: httpx.Response) -> Mapping[str, object] | None:
    """What a process that is not ready waits for; None: it does not say."""
    try:
        problem = response.json()
    except ValueError:
        return None
    failures = problem.get("failures") if isinstance(problem, dict) else None
    return failures if isinstance(failures, dict) else None


def all_dependencies(
    database: mongo.Database, producer: EventProducer, cache: redis.Client, services: Mapping[str, httpx.AsyncClient]
) -> Readiness:
    """Everything that the status page looks at; readiness of this process is another matter."""
    dependencies = Readiness()
    dependencies.register("mongo", lambda: mongo.ping(database))
    dependencies.register("kafka", lambda: asyncio.to_thread(producer.ping))
    dependencies.register("redis", lambda: redis.ping(cache))
    dependencies.register("postgres", behind("postgres", (services["retriever"], services["answerer"])))
    for name, client in services.items():
        dependencies.register(name, answers_ready(client, name))
    return dependencies


def secrets_of(settings: GatewaySettings) -> dict[str, Secrets]:
    """The secrets by source."""
    names = {
        "github": "github_webhook_secret",
        "gitlab": "gitlab_webhook_token",
        "jira": "jira_webhook_secret",
        "alertmanager": "alertmanager_token",
        "pagerduty": "pagerduty_webhook_secret",
    }
    return {
        source: Secrets(name.upper(), getattr(settings, name), getattr(settings, f"{name}_previous"))
        for source, name in names.items()
    }


def holder() -> str:
    """Who leads, readable in the status page and never the same twice."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


async def warm_up(producer: EventProducer) -> None:
    """Connect before the first event comes: it would wait a second for the producer id otherwise."""
    await until_up("kafka", lambda: asyncio.to_thread(producer.ping))
