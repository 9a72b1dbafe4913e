"""`make chaos SEED=n`: the whole of Cairn under load while everything that can die does."""

from __future__ import annotations

import asyncio
import os
import random
import time
from contextlib import suppress

import pytest
from chaos_faults import Inject, Injector
from chaos_index import Checker, Verdict, judge, wrong_vectors
from chaos_load import GatewayLoad, RawLoad
from chaos_log import BrokerLog
from chaos_report import Table
from chaos_watch import watching
from chaos_world import GROUP, PARTITIONS, World, running_world

from cairn_shared import mongo
from cairn_shared.errors import CairnError
from cairn_shared.events import TOPIC_EVENTS, TOPIC_RUNBOOKS
from cairn_shared.kafka.producer import open_producer
from cairn_shared.kafka.records import Partition
from cairn_shared.mongo import Database

FAULTS_PER_ROUND = 16
LEAST_FAULTS = 200
ONLY = int(os.environ.get("CHAOS_FAULTS") or "0")
"""For trying things out: only so many faults."""

SETTLE_SECONDS = 180.0
LATE_ROUNDS = 3
"""Rounds at the end for crash points that no process came to: another fault was quicker."""


class Run:
    """One seeded run: rounds of faults under load, each ended by rest and a comparison of everything."""

    def __init__(self, world: World, seed: int, log: BrokerLog, raw: RawLoad, edits: GatewayLoad) -> None:
        self.world = world
        self.log = log
        self.raw = raw
        self.edits = edits
        self.chance = random.Random(f"faults {seed}")
        self.injector = Injector(world, raw, self.chance)
        self.checker = Checker(world.dsn, log)
        self.table = Table()
        self.faults: list[str] = []
        self.recoveries: list[float] = []

    async def round(self, faults: list[tuple[str, Inject]], database: Database) -> None:
        """Load and faults, then rest."""
        number = len(self.recoveries) + 1
        seen = sum(len(texts) for texts in self.checker.violations.values())
        load = [asyncio.create_task(self.raw.run()), asyncio.create_task(self.edits.run())]
        for name, inject in faults:
            await self.injector.inject(name, inject)
            await asyncio.sleep(self.chance.uniform(0.2, 1.6))
        done = await self.injector.finish()
        began = time.monotonic()
        # What is under way is in doubt: the log says if it was taken.
        for one in load:
            one.cancel()
        for one in load:
            with suppress(asyncio.CancelledError):
                await one
        await self.raw.flush()
        wrong = await self.rest(database)
        self.recoveries.append(time.monotonic() - began)
        wrong += [text for texts in self.checker.violations.values() for text in texts][seen:]
        self.faults += [f"round {number}: {text}" for text in wrong]
        self.table.round(done, held=not wrong)
        print(
            f"round {number:2}: {done.total():3} faults, {len(self.log.healthy)} records, "
            f"at rest after {self.recoveries[-1]:.0f} s, {len(wrong)} faults seen",
            flush=True,
        )
        for text in wrong[:10]:
            print(f"    {text}", flush=True)

    async def rest(self, database: Database) -> list[str]:
        """Wait until everything has come to its end, while anything moves; what is wrong then."""
        try:
            await self.world.ready(SETTLE_SECONDS)
        except TimeoutError:
            return [f"not everything answers after {SETTLE_SECONDS:.0f} s"]
        left, since = await self._left(database), time.monotonic()
        while any(left):
            if time.monotonic() - since > SETTLE_SECONDS:
                return [f"nothing has moved for {SETTLE_SECONDS:.0f} s: pending {left[0]}, left {left[1]}"]
            await asyncio.sleep(0.3)
            if (now := await self._left(database)) != left:
                left, since = now, time.monotonic()
        verdict = await judge(self.world.dsn, self.log)
        return [f"{kind}: {text}" for kind, texts in verdict.faults.items() for text in texts]

    async def _left(self, database: Database) -> tuple[int, dict[Partition, tuple[int, int]]]:
        """What the gateway has yet to publish, and the consumers yet to do; the log is read to its end."""
        pending = await _pending(database)
        await self.log.catch_up(0.5)
        return pending, await self.log.unfinished()

    def never_arrived(self) -> list[str]:
        """What somebody was told is safe, and no broker has."""
        told = self.raw.accepted.events | self.edits.accepted.events
        lost = [f"lost: {one} was accepted and is in no log" for one in told - self.log.writes.keys()]
        gone = self.raw.accepted.poison.keys() - self.log.died.keys()
        for record, place in self.raw.accepted.poison.items():
            if record not in gone and self.log.died[record] != place:
                print(f"acknowledged as {place}, found at {self.log.died[record]}")
        return lost + [f"lost: poison that was acknowledged as {self.raw.accepted.poison[one]}" for one in gone]


async def _pending(database: Database) -> int:
    try:
        return sum([await database[name].count_documents({"state": "pending"}) for name in ("outbox", "inbox")])
    except (CairnError, mongo.MongoError):
        return -1


@pytest.mark.chaos
async def test_nothing_is_lost_resurrected_or_mixed_whatever_dies(capsys: pytest.CaptureFixture[str]) -> None:
    seed = int(os.environ.get("SEED") or "1")
    began = time.monotonic()
    with capsys.disabled():
        print(f"\nchaos: SEED={seed}, broker {os.environ.get('BROKER') or 'embedded'}", flush=True)
        async with running_world() as world:
            log = BrokerLog(world.kafka.kafka_bootstrap_servers, (TOPIC_RUNBOOKS, TOPIC_EVENTS), PARTITIONS, GROUP)
            async with open_producer(world.kafka, "chaos") as producer, mongo.open_database(world.mongo, "chaos") as db:
                raw = RawLoad(producer, log, random.Random(f"records {seed}"), rate=12)
                edits = GatewayLoad(world.client, random.Random(f"edits {seed}"), rate=3)
                run = Run(world, seed, log, raw, edits)
                async with watching(log.follow(), run.checker.run()):
                    plan = run.injector.plan()[: ONLY or None]
                    for first in range(0, len(plan), FAULTS_PER_ROUND):
                        await run.round(plan[first : first + FAULTS_PER_ROUND], db)
                    for _ in range(0 if ONLY else LATE_ROUNDS):
                        if missed := run.injector.missed():
                            await run.round(missed, db)
            run.faults += run.never_arrived()
            run.faults += await wrong_vectors(world.dsn, world.processes["embedder"].server.address)
            verdict = await judge(world.dsn, log)
            _print(run, verdict, seed, time.monotonic() - began)
            deaths = sum(sum(one.deaths.values()) for one in world.consumers)
            log.close()
        assert not run.faults, run.faults[:20]
        assert run.table.injected.total() >= (0 if ONLY else LEAST_FAULTS)
        assert ONLY or not run.injector.missed(), [name for name, _ in run.injector.missed()]
        # A death or a suspension redoes at most what was done since the last commit, a second before.
        assert verdict.repeated <= (deaths + run.table.injected.total()) * 200


def _print(run: Run, verdict: Verdict, seed: int, seconds: float) -> None:
    print(f"\nSEED={seed}, {seconds / 60:.1f} minutes, {run.checker.looks} looks at the index\n")
    print("\n".join(run.table.lines(also=[name for name, _ in run.injector.missed()])))
    for name, process in run.world.processes.items():
        print(f"{name}: {process.lives} lives, ends {dict(process.deaths)}")
    print(f"sent: {dict((run.raw.accepted.sent + run.edits.accepted.sent).most_common())}")
    letters = {letter.id for letter in run.log.letters}
    counts = {kind: len(texts) for kind, texts in run.checker.violations.items()}
    faults = verdict.faults
    print(
        f"records {len(run.log.healthy)} + {len(run.log.poison)} poison; dead letters {len(letters)} "
        f"({len(run.log.letters) - len(letters)} sent again); redone after being written "
        f"{verdict.repeated}; documents {verdict.documents}, "
        f"chunks {verdict.chunks}; longest rest {max(run.recoveries):.0f} s"
    )
    for kind in ("lost", "resurrected", "mixed"):
        print(f"{kind}: {counts.get(kind, 0) + len(faults.get(kind, []))}")
