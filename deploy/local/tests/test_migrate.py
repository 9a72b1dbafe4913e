from __future__ import annotations

import asyncio
import subprocess
import uuid
from pathlib import Path

import asyncpg
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pydantic import SecretStr

from cairn_local import migrate
from cairn_local.migrate import TopicPolicy, create_topics, topics
from cairn_local.programs import python_module
from cairn_local.testservers import TestServers
from cairn_shared.events import TOPICS, dead_letter_topic
from cairn_shared.settings import KafkaSettings


def test_dead_letter_topics_take_larger_records_and_keep_them_longer() -> None:
    settings = KafkaSettings(kafka_bootstrap_servers="x", kafka_max_message_bytes=1_000_000, kafka_partitions=4)
    made = {topic.topic: topic for topic in topics(settings, TopicPolicy(7, 30, 300_000))}
    assert set(made) == {*TOPICS, *map(dead_letter_topic, TOPICS)}
    for name in TOPICS:
        own, dead = made[name], made[dead_letter_topic(name)]
        assert own.config is not None
        assert dead.config is not None
        assert int(own.config["max.message.bytes"]) >= 1_000_000
        assert int(dead.config["max.message.bytes"]) - int(own.config["max.message.bytes"]) == 300_000
        assert int(own.config["retention.ms"]) == 7 * 86_400_000
        assert int(dead.config["retention.ms"]) == 30 * 86_400_000
        assert own.config["cleanup.policy"] == dead.config["cleanup.policy"] == "delete"
        assert own.num_partitions == dead.num_partitions == 4


@pytest.mark.parametrize(("replicas", "in_sync"), [(1, "1"), (2, "1"), (3, "2")])
def test_three_replicas_need_two_in_sync(replicas: int, in_sync: str) -> None:
    settings = KafkaSettings(kafka_bootstrap_servers="x", kafka_replication_factor=replicas)
    for topic in topics(settings):
        assert topic.config is not None
        assert topic.config["min.insync.replicas"] == in_sync


def test_topics_are_created_once_with_their_partitions(kafka_settings: KafkaSettings) -> None:
    name = f"migrate.{uuid.uuid4().hex}"
    wanted = [NewTopic(name, num_partitions=4, replication_factor=1, config={"retention.ms": "1000000"})]
    assert create_topics(kafka_settings, wanted) == 1
    assert create_topics(kafka_settings, wanted) == 0
    bare = [NewTopic(topic.topic, topic.num_partitions) for topic in wanted]
    assert create_topics(kafka_settings, bare) == 0, "no configuration is none to set"
    client = AdminClient({"bootstrap.servers": kafka_settings.kafka_bootstrap_servers})
    assert len(client.list_topics(timeout=10).topics[name].partitions) == 4


def test_a_broker_that_is_away_is_an_error_after_the_time_that_was_given() -> None:
    settings = KafkaSettings(kafka_bootstrap_servers="127.0.0.1:1")
    with pytest.raises(RuntimeError, match="topics could not be created"):
        create_topics(settings, timeout=0.1)


async def test_the_database_is_created_and_two_jobs_at_once_do_it_once(test_servers: TestServers) -> None:
    address = (await asyncio.to_thread(test_servers.postgres)).rpartition("/")[0]
    name = f"migrate_{uuid.uuid4().hex}"
    dsn = SecretStr(f"{address}/{name}")
    await asyncio.gather(migrate.migrate_postgres(dsn), migrate.migrate_postgres(dsn))
    await migrate.migrate_postgres(dsn)
    connection = await asyncpg.connect(dsn.get_secret_value())
    try:
        assert await connection.fetchval("SELECT count(*) FROM alembic_version") == 1
        assert await connection.fetchval("SELECT count(*) FROM corpus_state") == 1
    finally:
        await connection.close()
    maintenance = await asyncpg.connect(f"{address}/postgres")
    try:
        await maintenance.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await maintenance.close()


def run_job(**env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*python_module("cairn_local.migrate")], env=env, capture_output=True, text=True, timeout=60)


def test_the_job_runs_from_environment_variables_and_names_one_that_is_missing(
    postgres_dsn: str, kafka_bootstrap: str
) -> None:
    missing = run_job(KAFKA_BOOTSTRAP_SERVERS=kafka_bootstrap)
    assert missing.returncode == 2
    assert "PG_DSN" in missing.stderr
    done = run_job(PG_DSN=postgres_dsn, KAFKA_BOOTSTRAP_SERVERS=kafka_bootstrap)
    assert (done.returncode, done.stderr) == (0, "")
    assert '"event":"migrated"' in done.stdout


def test_the_job_fails_without_a_traceback_or_the_password(kafka_bootstrap: str) -> None:
    failed = run_job(PG_DSN="postgresql://u:hidden@127.0.0.1:1/x", KAFKA_BOOTSTRAP_SERVERS=kafka_bootstrap)
    assert failed.returncode == 1
    assert "migration failed" in failed.stdout
    assert "Traceback" not in failed.stdout + failed.stderr
    assert "hidden" not in failed.stdout + failed.stderr


def test_missing_migrations_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CAIRN_MIGRATIONS", str(tmp_path))
    with pytest.raises(RuntimeError, match="CAIRN_MIGRATIONS"):
        migrate.migrations_folder()
