"""The `migrate` job: Alembic over deploy/migrations, and topics with explicit configuration. Safe to run again."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg
from alembic import command
from alembic.config import Config
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from pydantic import SecretStr
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import create_async_engine

from cairn_shared import logging
from cairn_shared.events import TOPICS, dead_letter_topic
from cairn_shared.kafka.connection import connection
from cairn_shared.settings import KafkaSettings, PostgresSettings, load

DAY_MS = 24 * 3600 * 1000
MIGRATION_LOCK = 0x636169726E  # any fixed number: two jobs must not migrate at once


@dataclass(frozen=True)
class TopicPolicy:
    """Retention in days, and how much larger a dead letter may be than the record that died (its headers)."""

    retention_days: int = 7
    dead_letter_retention_days: int = 30
    dead_letter_margin_bytes: int = 256 * 1024


def migrations_folder() -> Path:
    """deploy/migrations of the checkout, or what CAIRN_MIGRATIONS names (as in the image).

    Raises:
        RuntimeError: it is not there.
    """
    chosen = os.environ.get("CAIRN_MIGRATIONS")
    folder = Path(chosen) if chosen else Path(__file__).resolve().parents[3] / "migrations"
    if not (folder / "env.py").is_file():
        raise RuntimeError(f"there are no migrations in {folder}: set CAIRN_MIGRATIONS to the folder deploy/migrations")
    return folder


def alembic_config() -> Config:
    """Alembic's configuration, without an ini file."""
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


async def migrate_postgres(dsn: SecretStr) -> None:
    """Bring the database to the newest revision, creating it where it does not exist."""
    await ensure_database(dsn)
    engine = create_async_engine(dsn.get_secret_value().replace("postgresql://", "postgresql+asyncpg://", 1))

    def upgrade(connection: Connection) -> None:
        config = alembic_config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

    try:
        async with engine.connect() as connection:
            await connection.exec_driver_sql(f"SELECT pg_advisory_lock({MIGRATION_LOCK})")
            await connection.commit()
            await connection.run_sync(upgrade)
            await connection.commit()
    finally:
        await engine.dispose()  # closing the session releases the lock


async def ensure_database(dsn: SecretStr) -> None:
    """Create the database that `dsn` names, if there is none and the role may."""
    address, _, database = dsn.get_secret_value().rpartition("/")
    name = database.partition("?")[0]
    try:
        connection = await asyncpg.connect(dsn.get_secret_value(), timeout=10)
    except asyncpg.InvalidCatalogNameError:
        connection = await asyncpg.connect(f"{address}/postgres", timeout=10)
        try:
            await connection.execute('CREATE DATABASE "{}"'.format(name.replace('"', '""')))
        except (asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
            pass  # another job was quicker
        finally:
            await connection.close()
    else:
        await connection.close()


def topics(settings: KafkaSettings, policy: TopicPolicy = TopicPolicy()) -> list[NewTopic]:
    """Every topic of Cairn and its dead letter topic, with its configuration."""
    made = []
    for topic in TOPICS:
        made.append(_topic(topic, settings, policy.retention_days, settings.kafka_max_message_bytes))
        made.append(
            _topic(
                dead_letter_topic(topic),
                settings,
                policy.dead_letter_retention_days,
                settings.kafka_max_message_bytes + policy.dead_letter_margin_bytes,
            )
        )
    return made


def _topic(name: str, settings: KafkaSettings, days: int, record_bytes: int) -> NewTopic:
    replicas = settings.kafka_replication_factor
    return NewTopic(
        name,
        num_partitions=settings.kafka_partitions,
        replication_factor=replicas,
        config={
            "cleanup.policy": "delete",  # never compact: tombstones and dead letters would vanish
            "retention.ms": str(days * DAY_MS),
            "max.message.bytes": str(record_bytes + 64 * 1024),  # the producer allows that much for batch framing
            "min.insync.replicas": str(2 if replicas >= 3 else 1),
        },
    )


def create_topics(settings: KafkaSettings, wanted: Sequence[NewTopic] | None = None, *, timeout: float = 60.0) -> int:
    """Create the topics that do not exist and set the configuration of those that do. Returns how many are new.

    On return every partition has a leader: creation is acknowledged before the brokers know it.

    Raises:
        RuntimeError: the broker refused, or could not be reached within `timeout` seconds.
    """
    client = AdminClient({**connection(settings), "log_level": 2})
    deadline = time.monotonic() + timeout
    wanted = topics(settings) if wanted is None else list(wanted)
    created = 0
    while True:
        try:
            created += _create(client, wanted, max(1.0, min(10.0, deadline - time.monotonic())))
            ready = _led(client, wanted)
        except KafkaException as exc:
            error: KafkaError = exc.args[0]
            if time.monotonic() > deadline or not _may_pass(error):
                raise RuntimeError(f"topics could not be created: {error.name()}: {error.str()}") from exc
            time.sleep(0.5)
        else:
            if ready:
                return created
            if time.monotonic() > deadline:
                raise RuntimeError("topics were created, but not every partition has a leader")
            time.sleep(0.05)


def _led(client: AdminClient, wanted: Sequence[NewTopic]) -> bool:
    """Whether all partitions of all topics have a leader."""
    known = client.list_topics(timeout=10).topics
    return all(
        topic.topic in known
        and known[topic.topic].partitions
        and all(partition.leader >= 0 for partition in known[topic.topic].partitions.values())
        for topic in wanted
    )


def _create(client: AdminClient, wanted: Sequence[NewTopic], timeout: float) -> int:
    existing = client.list_topics(timeout=timeout).topics
    missing = [topic for topic in wanted if topic.topic not in existing]
    present = [topic for topic in wanted if topic.topic in existing]
    created = 0
    if missing:
        for future in client.create_topics(missing, request_timeout=15).values():
            try:
                future.result(20)
                created += 1
            except KafkaException as exc:
                if exc.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
    for topic in present:
        if topic.config:
            _configure(client, topic.topic, topic.config)
    return created


def _configure(client: AdminClient, topic: str, values: Mapping[str, str]) -> None:
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in values.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    for future in client.incremental_alter_configs([resource], request_timeout=15).values():
        try:
            future.result(20)
        except KafkaException as exc:
            if exc.args[0].code() not in (KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE):  # noqa: SLF001
                raise


def _may_pass(error: KafkaError) -> bool:
    return error.retriable() or error.code() in (
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError.INVALID_REPLICATION_FACTOR,  # while brokers are still joining
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    )


class MigrateSettings(PostgresSettings, KafkaSettings):
    """What the job reads from the environment."""


def run() -> int:
    """The whole job, from the environment. Returns the exit code."""
    logging.configure("migrate")
    log = logging.get_logger(__name__)
    settings = load(MigrateSettings)
    try:
        asyncio.run(migrate_postgres(settings.pg_dsn))
        created = create_topics(settings)
    except (RuntimeError, OSError, asyncpg.PostgresError, SQLAlchemyError) as exc:
        log.error("migration failed", error=type(exc).__name__, reason=str(exc))  # noqa: TRY400 - it names the cause
        return 1
    log.info("migrated", topics_created=created)
    return 0


if __name__ == "__main__":
    sys.exit(run())
