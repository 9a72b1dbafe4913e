"""What is done to a world, drawn by seed, and how it is counted."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import asyncpg
import httpx
import redis.asyncio
from chaos_load import RawLoad
from chaos_processes import Process
from chaos_proxy import MANNERS
from chaos_world import World, eventually

from cairn_shared.crashpoints import CONSUMER_POINTS, GATEWAY_POINTS
from cairn_shared.postgres import FAILURES

Inject = Callable[[], Awaitable[bool]]
DRAIN_POINTS = ("before_drain", "after_drain")
LETTER_POINTS = ("before_dead_letter", "after_dead_letter")
ZOMBIE_SECONDS = (8.0, 30.0)
REPLICA_STEPS = (1, 4, 2)
ARMED_SECONDS = 40.0
SPOIL_SECONDS = 25.0


class Injector:
    """Injects one fault at a time; slow ones go on in the background until `finish`."""

    def __init__(self, world: World, load: RawLoad, chance: random.Random) -> None:
        self._world = world
        self._load = load
        self._chance = chance
        self._background: set[asyncio.Task[None]] = set()
        self._steps = 0
        self._zombie: Process | None = None
        self._counted: Counter[str] = Counter()
        self._reported: Counter[str] = Counter()

    def plan(self) -> list[tuple[str, Inject]]:
        """Every fault of a run, in the order of the seed."""
        one: dict[str, tuple[int, Inject]] = {
            **{f"embedder: {manner}": (10, partial(self._spoil, manner)) for manner in MANNERS},
            **{name: (3, inject) for name, inject in self._deaths().items()},
            "consumer: SIGKILL": (16, self._kill_consumer),
            "consumer: SIGSTOP 8 to 30 s, SIGCONT": (8, self._suspend),
            "replicas 1 -> 4 -> 2": (12, self._rescale),
            "gateway: SIGKILL": (8, partial(self._kill, "gateway")),
            "embedder: SIGKILL": (4, partial(self._kill, "embedder")),
            "retriever: SIGKILL": (4, partial(self._kill, "retriever")),
            "PostgreSQL: connections cut": (20, self._cut_connections),
            "PostgreSQL: SIGKILL": (5, partial(self._kill, "postgres")),
            "PostgreSQL: restart": (3, partial(self._kill, "postgres", signal.SIGINT)),
            "MongoDB: SIGKILL": (5, partial(self._kill, "mongo")),
            "Redis: SIGKILL": (6, partial(self._kill, "redis")),
            "Redis: emptied": (5, self._empty_redis),
        }
        if self._world.durable:
            one |= {
                "Kafka: SIGKILL": (4, partial(self._kill, "kafka")),
                "Kafka: restart": (2, partial(self._kill, "kafka", signal.SIGTERM)),
            }
        faults = [(name, inject) for name, (count, inject) in one.items() for _ in range(count)]
        self._chance.shuffle(faults)
        return faults

    def _deaths(self) -> dict[str, Inject]:
        """One death at each crash point that a process can come to."""
        # With INBOX=always, which the embedded broker needs, nothing is sent before it is answered.
        gateway = [point for point in GATEWAY_POINTS if self._world.durable or point != "after_produce"]
        return {
            **{f"consumer dies {point}": partial(self._die_at, point) for point in CONSUMER_POINTS},
            **{f"gateway dies {point}": partial(self._gateway_dies_at, point) for point in gateway},
        }

    def missed(self) -> list[tuple[str, Inject]]:
        """Deaths at the crash points at which nothing has died yet."""
        return [(name, inject) for name, inject in self._deaths().items() if not self._reported[name]]

    async def inject(self, name: str, inject: Inject) -> None:
        if await inject():
            self._counted[name] += 1

    async def finish(self) -> Counter[str]:
        """Wait for the slow ones, end all misbehaviour; what was done since the last time, by kind."""
        await asyncio.gather(*self._background)
        with suppress(TimeoutError):
            await eventually(lambda: not self._world.proxy.waiting, SPOIL_SECONDS)
        self._world.proxy.forgive()
        for process in self._world.processes.values():
            if process.suspended:
                process.resume()
        total = self._counted.copy()
        total.update({f"embedder: {manner}": count for manner, count in self._world.proxy.done.items()})
        for consumer in self._world.consumers:
            total.update(f"consumer dies {point}" for point in consumer.died_at)
        total.update(f"gateway dies {point}" for point in self._world.processes["gateway"].died_at)
        news = total - self._reported
        self._reported = total
        return news

    def _later(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _spoil(self, manner: str) -> bool:
        self._world.proxy.spoil(manner)
        return False  # counted when it is done to a request

    async def _kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> bool:
        return self._world.processes[name].kill(number)

    def _member(self) -> Process | None:
        running = [c for c in self._world.consumers if c.wanted and c.runs and not c.suspended]
        return self._chance.choice(running) if running else None

    async def _kill_consumer(self) -> bool:
        member = self._member()
        return member is not None and member.kill()

    async def _suspend(self) -> bool:
        member = self._member()
        if member is None or (self._zombie is not None and self._zombie.suspended) or not member.suspend():
            return False
        self._zombie = member
        self._later(self._wake(member, self._chance.choice((ZOMBIE_SECONDS[1], self._chance.uniform(*ZOMBIE_SECONDS)))))
        return True

    async def _wake(self, member: Process, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if member.suspended:
            member.resume()

    async def _rescale(self) -> bool:
        wanted = REPLICA_STEPS[self._steps % len(REPLICA_STEPS)]
        self._steps += 1
        for number, consumer in enumerate(self._world.consumers):
            consumer.wanted = number < wanted
            if not consumer.wanted and not consumer.suspended:
                consumer.kill(signal.SIGTERM)
        return True

    async def _die_at(self, point: str) -> bool:
        self._later(self._arm(point))
        return False  # counted when it has died

    async def _gateway_dies_at(self, point: str) -> bool:
        self._later(self._arm_gateway(point))
        return False

    async def _arm_gateway(self, point: str) -> None:
        gateway = self._world.processes["gateway"]
        with suppress(TimeoutError):
            await eventually(lambda: gateway.runs and not gateway.crash_points and not gateway.armed, ARMED_SECONDS)
            gateway.crash_points.append(point)
            gateway.kill(signal.SIGTERM)
            deaths = len(gateway.died_at)
            await eventually(lambda: len(gateway.died_at) > deaths, ARMED_SECONDS)

    async def _arm(self, point: str) -> None:
        """Restart a replica so that it dies at `point`, and give it occasion to."""
        with suppress(TimeoutError):  # else it stays armed and may die later
            async with asyncio.timeout(ARMED_SECONDS):
                while (member := self._member()) is None or member.armed or member.crash_points:
                    await asyncio.sleep(0.2)
                member.crash_points.append(point)
                member.kill(signal.SIGTERM)
                deaths = len(member.died_at)
                while member.armed != point and member.wanted:
                    await asyncio.sleep(0.1)
                await member.wait_ready(ARMED_SECONDS)
                while member.armed == point and len(member.died_at) == deaths:
                    if point in LETTER_POINTS:
                        await self._load.send_poison()
                    if point in DRAIN_POINTS and not member.suspended and await _owns_partitions(member):
                        member.kill(signal.SIGTERM)
                    await asyncio.sleep(1.5)

    async def _cut_connections(self) -> bool:
        """What a failover does to clients: every session of a service ends at once."""
        try:
            connection = await asyncpg.connect(self._world.dsn, timeout=3)
        except FAILURES:
            return False
        try:
            cut = await connection.fetchval(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND application_name <> '' AND datname = current_database()",
                timeout=5,
            )
        except FAILURES:
            return False
        finally:
            connection.terminate()
        return bool(cut)

    async def _empty_redis(self) -> bool:
        async with redis.asyncio.Redis.from_url(self._world.redis, socket_timeout=3) as client:
            try:
                await client.flushall()
            except (redis.asyncio.RedisError, OSError):
                return False
        return True


async def _owns_partitions(member: Process) -> bool:
    """Whether it has anything to drain: it is ready before its group gives it something."""
    async with httpx.AsyncClient(trust_env=False, timeout=3) as client:
        try:
            return "cairn_ingest_lag_records{" in (await client.get(f"{member.server.address}/metrics")).text
        except httpx.HTTPError:
            return False
