"""The parts of the workbench put together: what routes use, and what the leader runs."""

from __future__ import annotations

import os
import socket
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from cairn_gateway.accept import Accepter
from cairn_gateway.dlq.documents import JOBS, LETTERS
from cairn_gateway.dlq.indexer import LetterIndexer, keep_reading
from cairn_gateway.dlq.jobs import MongoJobs
from cairn_gateway.dlq.replay import Replayer, Sender
from cairn_gateway.dlq.resolver import ResolvePolicy, Resolver
from cairn_gateway.dlq.store import KeepPolicy, MongoLetters
from cairn_gateway.dlq.workbench import Consumers, Workbench
from cairn_gateway.metrics import Metrics
from cairn_gateway.ports import Audit, RawPublisher, VersionedIndex
from cairn_gateway.settings import GatewaySettings
from cairn_shared import mongo
from cairn_shared.clock import Clock
from cairn_shared.events import TOPICS, dead_letter_topic
from cairn_shared.kafka.confluent import ConfluentConsumer
from cairn_shared.kafka.engine import ConsumerEngine


@dataclass(frozen=True)
class Stored:
    """What is kept of dead letters."""

    letters: MongoLetters
    jobs: MongoJobs


def stored(settings: GatewaySettings, database: mongo.Database, clock: Clock) -> Stored:
    """The stores over `database`."""
    policy = KeepPolicy(keep=timedelta(days=settings.dlq_keep_days))
    letters = MongoLetters(database[LETTERS], clock, policy)
    return Stored(letters, MongoJobs(database[JOBS], letters, clock))


@dataclass(frozen=True)
class Assembled:
    """The workbench, and its background work."""

    workbench: Workbench
    replayer: Replayer
    resolver: Resolver
    indexer: LetterIndexer
    settings: GatewaySettings
    clock: Clock

    def work(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """What the leader runs; each until cancelled."""
        return self.replayer.run(), self.resolver.run(), keep_reading(self._engine, self.clock)

    def _engine(self) -> ConsumerEngine:
        """A reader of the dead letter topics. One that is stuck is stopped and made anew, never the process."""
        policy, settings = self.settings.reading(), self.settings
        client_id = f"{settings.dlq_group}-{socket.gethostname()}-{os.getpid()}"
        engine = ConsumerEngine(
            lambda: ConfluentConsumer(settings, settings.dlq_group, client_id, policy),
            [dead_letter_topic(topic) for topic in TOPICS],
            self.indexer,
            policy=policy,
            clock=self.clock,
            on_stuck=lambda _: engine.stop(),
        )
        return engine


def assemble(
    settings: GatewaySettings,
    kept: Stored,
    *,
    publisher: RawPublisher,
    accepter: Accepter,
    consumers: Consumers,
    index: VersionedIndex,
    audit: Audit,
    clock: Clock,
    metrics: Metrics,
) -> Assembled:
    """The workbench over these adapters."""
    letters, jobs = kept.letters, kept.jobs
    sender = Sender(publisher, letters, clock, metrics)
    policy = ResolvePolicy(forgets=settings.inbox == "always")
    return Assembled(
        Workbench(letters, jobs, accepter=accepter, consumers=consumers, index=index, audit=audit, clock=clock),
        Replayer(jobs, letters, sender, clock),
        Resolver(letters, index, sender=sender, clock=clock, metrics=metrics, policy=policy),
        LetterIndexer(letters, clock, metrics),
        settings,
        clock,
    )
