"""The pipeline on a bench: everything in memory, time by hand."""

from __future__ import annotations

import random
import secrets
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from answerer_corpus import MemoryCorpus
from answerer_servers import FakeRetriever, ScriptedModel
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from cairn_answerer import breaker, cache, flights, pipeline, prompt, resilience, writing
from cairn_answerer.adapters.completions import Silence
from cairn_answerer.adapters.openai_model import OpenAIModel
from cairn_answerer.adapters.retriever import HttpRetriever
from cairn_answerer.breaker import Circuit
from cairn_answerer.bulkhead import Room
from cairn_answerer.dialects import Experience
from cairn_answerer.gathering import Gatherer
from cairn_answerer.metrics import Metrics
from cairn_answerer.ports import Retriever
from cairn_answerer.refine import Refiner
from cairn_answerer.refined_search import RefinedRetriever
from cairn_shared.clock import Clock, SystemClock
from cairn_shared.http import open_client
from cairn_shared.openai import Endpoint
from cairn_shared.retry import Backoff


class HandClock:
    """Wall time that moves when told to."""

    def __init__(self) -> None:
        self.time = datetime(2026, 11, 30, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    async def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class MemoryStore:
    """AnswerStore, FlightStore and CircuitStore in memory: what several replicas share. Nothing in it expires by itself."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.seconds: dict[str, float] = {}
        self.leases: dict[str, str] = {}
        self.failures = 0
        self.opened_at: float | None = None
        self.probe: str | None = None

    async def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    async def put(self, key: str, value: bytes, seconds: float) -> None:
        self.values[key] = value
        self.seconds[key] = seconds

    async def lead(self, key: str, token: str, seconds: float) -> str:
        return self.leases.setdefault(key, token)

    async def renew(self, key: str, token: str, seconds: float) -> bool:
        return self.leases.get(key) == token

    async def land(self, key: str, token: str, result: bytes | None, seconds: float) -> None:
        if self.leases.get(key) == token:
            if result is not None:
                self.values[f"{key}:{token}"] = result
            del self.leases[key]

    async def look(self, key: str, token: str) -> tuple[str | None, bytes | None]:
        return self.leases.get(key), self.values.get(f"{key}:{token}")

    async def read(self) -> tuple[int, float | None]:
        return self.failures, self.opened_at

    async def failed(self) -> int:
        self.failures += 1
        return self.failures

    async def opened(self, at: float) -> None:
        self.opened_at = at

    async def closed(self) -> None:
        self.failures, self.opened_at = 0, None

    async def take_probe(self, token: str, seconds: float) -> bool:
        self.probe = self.probe or token
        return self.probe == token

    async def release_probe(self, token: str) -> None:
        if self.probe == token:
            self.probe = None


@dataclass
class Bench:
    """The pipeline over the real adapters for HTTP and in-memory stores: everything but PostgreSQL and Redis."""

    retriever: FakeRetriever
    model: ScriptedModel | None
    corpus: MemoryCorpus
    store: MemoryStore
    clients: AsyncExitStack
    clock: Clock = field(default_factory=SystemClock)
    refined: list[str] = field(default_factory=list)
    """What became of each refused question."""

    async def answerer(
        self,
        *,
        deadline: float = 3.0,
        attempt: float = 0.6,
        first: float | None = None,
        silence: float = 8.0,
        model_room: Room = writing.ROOM,
        failures: int = 5,
        open_seconds: float = 30.0,
        refine: float | None = None,
        wait: float = 0.3,
        leads: bool = True,
    ) -> pipeline.Answerer:
        """One replica; several may share the stores."""
        metrics = Metrics(CollectorRegistry())
        search = await self.clients.enter_async_context(open_client(self.retriever.url, 2.0))
        found: Retriever = HttpRetriever(search)
        writer = None
        if self.model is not None:
            client = await self.clients.enter_async_context(open_client(f"{self.model.url}/v1/", attempt))
            endpoint = OpenAIModel(
                client,
                Endpoint.of(f"{self.model.url}/v1"),
                Experience(self.clock),
                model="scripted",
                api_key=SecretStr("sk-test"),
                max_tokens=500,
                temperature=0.1,
                silence=Silence(first, silence),
            )
            circuit = Circuit(
                self.store, self.clock, breaker.Policy(failures, open_seconds, 2.0), on_change=metrics.circuit_state.set
            )
            patience = resilience.Patience(attempt_seconds=attempt, backoff=Backoff(base=0.02, limit=0.1))
            chat = resilience.ResilientModel(endpoint, circuit, self.clock, patience)
            writer = writing.Writer(
                chat,
                metrics,
                choose=random.SystemRandom().choice,
                nonce=lambda: secrets.token_hex(8),
                policy=writing.Policy(reserve=0.4, room=model_room, leads=leads),
                budget=24_000,
            )
            if refine is not None:
                rewriter = Refiner(endpoint, circuit, self.store, model="m", seconds=refine, nonce=lambda: "5eed")
                found = RefinedRetriever(found, rewriter, self.refined.append)
        return pipeline.Answerer(
            gatherer=Gatherer(found, self.corpus),
            writer=writer,
            corpus=self.corpus,
            answers=cache.AnswerCache(self.store, self.corpus, metrics, lambda low, high: (low + high) / 2),
            flights=flights.Flights(self.store, self.clock, metrics, flights.Policy(lease=0.5)),
            fingerprints=cache.Fingerprints("model", prompt.PROMPT_VERSION, "hybrid"),
            clock=self.clock,
            policy=pipeline.Policy(deadline=deadline, wait=wait, search=2.0),
            metrics=metrics,
            request_id=lambda: "test",
        )
