"""What the composition root puts together of settings and clients: checks of every part, secrets, a name."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx

from cairn_gateway.accept import Accepter
from cairn_gateway.adapters.mongo_audit import MongoAudit
from cairn_gateway.adapters.mongo_questions import MongoQuestions
from cairn_gateway.adapters.mongo_records import EXECUTION_INDEXES, FEEDBACK_INDEXES, MongoRecords
from cairn_gateway.adapters.mongo_spool import MongoSpool, SpoolPolicy
from cairn_gateway.adapters.mongo_users import MongoUsers
from cairn_gateway.repositories import Repositories, RepositoryTimer, TimerPolicy
from cairn_gateway.settings import GatewaySettings
from cairn_gateway.sources.signatures import Secrets
from cairn_shared import mongo, redis
from cairn_shared.clock import Clock
from cairn_shared.errors import CairnError, Unavailable
from cairn_shared.health import Check, Readiness
from cairn_shared.http import open_client
from cairn_shared.kafka.producer import EventProducer
from cairn_shared.logging import get_logger
from cairn_shared.repositories.hosts import Hosts
from cairn_shared.repositories.store import RepositoryStore
from cairn_shared.retry import until_up
from cairn_shared.runbooks.outbox import OUTBOX
from cairn_shared.service_token import bearer

log = get_logger(__name__)

INBOX = "inbox"
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


def people(
    database: mongo.Database, clock: Clock
) -> tuple[MongoUsers, MongoRecords, MongoRecords, MongoAudit, MongoQuestions]:
    """Users, and what is kept of what they did: executions, feedback, audit, questions."""
    executions = MongoRecords(database["executions"], "started_at", EXECUTION_INDEXES)
    feedback = MongoRecords(database["feedback"], "created_at", FEEDBACK_INDEXES)
    audit, questions = MongoAudit(database["audit"], clock), MongoQuestions(database)
    return MongoUsers(database, clock), executions, feedback, audit, questions


def spools_of(settings: GatewaySettings, database: mongo.Database, clock: Clock) -> tuple[MongoSpool, MongoSpool]:
    """The inbox and the outbox."""
    always = settings.inbox == "always"
    inbox = SpoolPolicy(keep=timedelta(hours=1), settles=always)
    outbox = SpoolPolicy(keep=timedelta(days=settings.outbox_keep_days), settles=always)
    return MongoSpool(database[INBOX], clock, inbox), MongoSpool(database[OUTBOX], clock, outbox)


async def open_embedder(settings: GatewaySettings, stack: AsyncExitStack) -> httpx.AsyncClient | None:
    """The connections to the embedder, if there is one for other programs to use."""
    if settings.embedder_url is None:
        return None
    return await stack.enter_async_context(
        open_client(settings.embedder_url, settings.embedder_timeout, headers=bearer(settings.service_token))
    )


async def open_consumers(settings: GatewaySettings, stack: AsyncExitStack) -> dict[str, httpx.AsyncClient]:
    """The connections to the consumers' health pages, by the names that the status page gives them."""
    return {
        f"ingest-consumer-{number}": await stack.enter_async_context(
            open_client(url, TIMEOUT, connections=2, headers=bearer(settings.service_token))
        )
        for number, url in enumerate(settings.consumers, start=1)
    }


@asynccontextmanager
async def background(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run beside the app; cancelled and awaited at the end. A failure is logged, the process goes on serving."""
    tasks = [asyncio.ensure_future(_logged(item)) for item in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:
        log.exception("background work ended")
        raise


async def open_repositories(
    settings: GatewaySettings, hosts: Hosts, declarations: RepositoryStore, accepter: Accepter, clock: Clock
) -> tuple[Repositories, RepositoryTimer]:
    """The use cases of repositories, with those of the file declared."""
    repositories = Repositories(declarations, hosts, accepter, clock)
    if settings.runbook_repos:
        await repositories.apply_file(settings.runbook_repos)
    policy = TimerPolicy(interval=timedelta(seconds=settings.repo_sync_interval))
    return repositories, RepositoryTimer(declarations, repositories, clock, policy)
