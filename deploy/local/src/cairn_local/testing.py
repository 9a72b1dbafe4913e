"""Pytest plugin (`-p cairn_local.testing`): real stores as fixtures, shared by the whole run, started when needed.

    postgres_dsn    str            a fresh, migrated database for this test
    mongo_settings  MongoSettings  a fresh database name for this test
    redis_url       str            an empty database for this test
    kafka_bootstrap str            the broker of the run (Apache Kafka with BROKER=apache KAFKA_HOME=...)
    kafka_settings  KafkaSettings  the same as settings
    kafka_topics    factory        `kafka_topics("name", partitions=3)` creates a topic of that prefix, returns its name
    embedder_url    str            an embedder process with the real model

Tansu, the broker unless told otherwise, holds the first join of a consumer group for half of `session.timeout.ms`
(22 s with librdkafka's default): set 2000 and `heartbeat.interval.ms` 500 in tests.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Protocol

import asyncpg
import pytest
from pydantic import SecretStr

from cairn_local.testservers import TEMPLATE, TestServers
from cairn_shared.settings import KafkaSettings, MongoSettings

_SERVERS = pytest.StashKey[TestServers]()


class TopicFactory(Protocol):
    """Creates a topic whose name begins with `name` and is used by nobody else."""

    def __call__(self, name: str = "test", *, partitions: int = 1, config: dict[str, str] | None = None) -> str: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--fast`."""
    parser.getgroup("cairn").addoption(
        "--fast", action="store_true", help="only tests that need no server and are not marked slow"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--fast`, leave out what needs a server."""
    if not config.getoption("--fast"):
        return
    kept = [item for item in items if not _needs_a_server(item)]
    config.hook.pytest_deselected(items=[item for item in items if _needs_a_server(item)])
    items[:] = kept


def _needs_a_server(item: pytest.Item) -> bool:
    fixtures = set(getattr(item, "fixturenames", ()))
    return bool(fixtures & {"test_servers", "stack"}) or item.get_closest_marker("slow") is not None


def pytest_configure(config: pytest.Config) -> None:
    """The process that the user started owns the servers; a worker of xdist is told where they are."""
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        from pathlib import Path

        config.stash[_SERVERS] = TestServers(Path(worker["cairn_servers"]), int(worker["cairn_owner"]))
    else:
        config.stash[_SERVERS] = TestServers.create()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """xdist: hand the folder to a worker."""
    servers: TestServers = node.config.stash[_SERVERS]  # type: ignore[attr-defined]
    node.workerinput["cairn_servers"] = str(servers.folder)  # type: ignore[attr-defined]
    node.workerinput["cairn_owner"] = servers.owner  # type: ignore[attr-defined]


def pytest_unconfigure(config: pytest.Config) -> None:
    """End all servers, whatever became of the tests."""
    if not hasattr(config, "workerinput") and _SERVERS in config.stash:
        config.stash[_SERVERS].stop()


@pytest.fixture(scope="session")
def test_servers(pytestconfig: pytest.Config) -> TestServers:
    """The servers of this run, for tests that need an address rather than a fresh database."""
    return pytestconfig.stash[_SERVERS]


@pytest.fixture
def postgres_dsn(test_servers: TestServers) -> Iterator[str]:
    """A fresh database with all migrations, cloned from a template; dropped afterwards."""
    from cairn_local.probes import blocking

    maintenance = test_servers.postgres()
    name = f"test_{uuid.uuid4().hex}"
    blocking(_execute(maintenance, f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} STRATEGY wal_log"))
    yield f"{maintenance.rpartition('/')[0]}/{name}"
    blocking(_execute(maintenance, f"DROP DATABASE {name} WITH (FORCE)"))


async def _execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn, timeout=30)
    try:
        await connection.execute(statement, timeout=30)
    finally:
        await connection.close()


@pytest.fixture
def mongo_settings(test_servers: TestServers) -> MongoSettings:
    """MongoDB with a database name that nobody used before."""
    return MongoSettings(mongo_uri=SecretStr(test_servers.mongo()), mongo_database=f"test_{uuid.uuid4().hex}")


@pytest.fixture
def redis_url(test_servers: TestServers) -> Iterator[str]:
    """An empty Redis database of this test's own; emptied afterwards."""
    import redis

    from cairn_local.backends import REDIS_DATABASES

    address = test_servers.redis()
    with redis.Redis.from_url(f"{address}/0") as counter:
        number = 1 + int(counter.incr("cairn:tests:databases")) % (REDIS_DATABASES - 1)
    with redis.Redis.from_url(f"{address}/{number}") as client:
        client.flushdb()
        yield f"{address}/{number}"
        client.flushdb()


@pytest.fixture(scope="session")
def kafka_bootstrap(test_servers: TestServers) -> str:
    """The broker's address."""
    return test_servers.kafka()


@pytest.fixture(scope="session")
def kafka_settings(kafka_bootstrap: str) -> KafkaSettings:
    """Settings for the broker of the run."""
    return KafkaSettings(kafka_bootstrap_servers=kafka_bootstrap)


@pytest.fixture
def kafka_topics(kafka_settings: KafkaSettings) -> TopicFactory:
    """A factory of topics with unique names; they go with the broker at the end of the run."""
    from confluent_kafka.admin import NewTopic

    from cairn_local.migrate import create_topics

    def create(name: str = "test", *, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        topic = f"{name}.{uuid.uuid4().hex[:12]}"
        create_topics(
            kafka_settings,
            [NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config or {})],
        )
        return topic

    return create


@pytest.fixture(scope="session")
def embedder_url(test_servers: TestServers) -> str:
    """An embedder process with the real model."""
    return test_servers.embedder()
