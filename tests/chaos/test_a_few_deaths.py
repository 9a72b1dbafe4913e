"""The part of the chaos run that every `make test` does: three replicas, a few faults, the same comparison."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest
from chaos_index import Checker, judge
from chaos_load import RawLoad
from chaos_replicas import replicas
from chaos_watch import watching
from chaos_world import eventually

from cairn_local.testing import TopicFactory
from cairn_shared.kafka.producer import open_producer
from cairn_shared.settings import KafkaSettings

SESSION = 6 if os.environ.get("BROKER") == "apache" else 2


@pytest.mark.slow
@pytest.mark.timeout(240)  # two sessions must end, on a busy machine
async def test_a_kill_a_crash_point_and_a_zombie_under_load_change_nothing_in_the_end(
    tmp_path: Path, kafka_settings: KafkaSettings, kafka_topics: TopicFactory, postgres_dsn: str
) -> None:
    seed = int(os.environ.get("SEED") or "1")
    chance = random.Random(f"a few {seed}")
    print(f"SEED={seed}")
    async with (
        replicas(tmp_path, kafka_settings, kafka_topics, postgres_dsn, count=3, partitions=3) as group,
        open_producer(kafka_settings, "chaos") as producer,
    ):
        load = RawLoad(producer, group.log, chance, rate=40, events=group.topic, runbooks=group.topic)
        zombie, victim, armed = chance.sample(group.members, 3)
        armed.crash_points.append(chance.choice(("after_embed", "in_transaction", "after_write", "before_commit")))
        for member in group.members:
            member.wanted = True
        checker = Checker(postgres_dsn, group.log, pause=0.1)
        async with watching(checker.run()):
            async with watching(load.run(), group.log.follow()):
                await zombie.wait_ready(60)
                await victim.wait_ready(60)
                await load.send_poison()
                await asyncio.sleep(1)
                assert zombie.suspend()
                await asyncio.sleep(0.5)
                assert victim.kill()
                await asyncio.sleep(SESSION + 1.5)  # others own the zombie's partitions and go on
                zombie.resume()
                await eventually(lambda: armed.deaths["crash point"], 60)
                await asyncio.sleep(1)
            await load.flush()
            await load.send_poison()
            await group.at_rest(60)
        verdict = await judge(postgres_dsn, group.log)
        assert verdict.faults == {}
        assert dict(checker.violations) == {}
        assert load.accepted.events <= group.log.writes.keys()
        assert load.accepted.poison.keys() <= group.log.died.keys()
        assert (victim.deaths["SIGKILL"], armed.deaths["crash point"]) == (1, 1)
        assert len(load.accepted.events) > 50
        assert len(group.log.poison) >= 2
        assert checker.looks > 5
