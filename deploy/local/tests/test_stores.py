"""Every store really starts, answers, keeps what it has through SIGKILL as far as it promises, and stops."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import psutil
import pytest
from pydantic import SecretStr
from redis import Redis

from cairn_local import probes
from cairn_local.migrate import create_topics, topics
from cairn_local.ports import free_port
from cairn_local.programs import Server, start, stop
from cairn_local.stores import apache_kafka, mongo, postgres, redis, tansu
from cairn_shared.kafka.producer import open_producer
from cairn_shared.mongo import open_database
from cairn_shared.settings import KafkaSettings, MongoSettings


@contextmanager
def running(server: Server, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    server.prepare()
    with log.open("ab") as output:
        process = start(server.program, output)
    try:
        deadline = time.monotonic() + server.ready_timeout
        while not answers(server):
            assert process.poll() is None, f"ended: {log.read_text()[-500:]}"
            assert time.monotonic() < deadline, f"not ready: {log.read_text()[-500:]}"
            time.sleep(0.05)
        yield process
    finally:
        stop(process, server.program)


def answers(server: Server) -> bool:
    try:
        server.probe()
    except probes.NotReady:
        return False
    return True


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that PostgreSQL's system user can reach: pytest's own is closed to others."""
    place = Path("/tmp") / f"cairn-stores-{os.getpid()}-{time.monotonic_ns()}"
    place.mkdir(mode=0o711)
    yield place
    shutil.rmtree(place, ignore_errors=True)


def test_postgres_keeps_committed_rows_through_sigkill_and_stops_without_children(folder: Path) -> None:
    server = postgres.server(folder / "data", free_port(), "a password@:/")

    async def run(statement: str) -> object:
        connection = await asyncpg.connect(server.address)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    with running(server, folder / "log") as process:
        probes.blocking(run("CREATE TABLE kept AS SELECT 42 AS n"))
        assert probes.blocking(run("CREATE EXTENSION vector")) is None
        process.kill()
        process.wait()
    with running(server, folder / "log") as process:
        assert probes.blocking(run("SELECT n FROM kept")) == 42
        assert tuple(map(int, str(probes.blocking(run(VECTOR_VERSION))).split("."))) >= (0, 8, 4)
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
    assert process.returncode == 0
    _, alive = psutil.wait_procs(children, timeout=5)
    assert alive == []


@pytest.mark.parametrize("store", ["redis", "mongo"])
def test_what_a_store_keeps_is_closed_to_others_even_where_its_folder_was_open(folder: Path, store: str) -> None:
    data = folder / store
    data.mkdir(mode=0o755)
    server = redis.server(data, free_port(), "x") if store == "redis" else mongo.server(data, free_port())
    with running(server, folder / "log"):
        if store == "redis":
            with Redis.from_url(server.address) as client:
                client.save()
        kept = [path for path in data.rglob("*") if path.is_file()]
    assert len(kept) > 1
    assert data.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o077 for path in kept if path.exists()} == {0}


VECTOR_VERSION = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another user")
def test_postgres_gets_the_right_to_pass_through_a_closed_folder_but_not_to_list_it(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    with running(postgres.server(closed / "data", free_port(), "x"), folder / "log") as process:
        assert psutil.Process(process.pid).username() == postgres.SYSTEM_USER
    assert closed.stat().st_mode & 0o777 == 0o701


def test_postgres_refuses_a_wrong_password(folder: Path) -> None:
    server = postgres.server(folder / "data", free_port(), "right")
    with running(server, folder / "log"), pytest.raises(probes.NotReady, match="password"):
        probes.postgres(server.address.replace("right", "wrong"))


def test_an_interrupted_initdb_is_begun_anew(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "half").touch()
    with running(postgres.server(folder / "data", free_port(), "x"), folder / "log"):
        assert not (folder / "data" / "half").exists()


def test_redis_needs_its_password_which_nobody_else_can_read(folder: Path) -> None:
    server = redis.server(folder / "redis", port := free_port(), "secret")
    with running(server, folder / "log"):
        with Redis.from_url(server.address) as client:
            assert client.ping()
        with pytest.raises(probes.NotReady):
            probes.redis(port, "wrong")
    assert (folder / "redis" / "redis.conf").stat().st_mode & 0o777 == 0o600


def test_the_mongo_store_keeps_every_acknowledged_write_through_sigkill(folder: Path) -> None:
    server = mongo.server(folder / "mongo", free_port())
    settings = MongoSettings(mongo_uri=SecretStr(server.address))

    async def write() -> int:
        async with open_database(settings, "test") as database:
            written = 0
            while process.poll() is None and written < 300:
                await database["kept"].insert_one({"_id": written})
                written += 1
            process.kill()
            return written

    async def count() -> int:
        async with open_database(settings, "test") as database:
            return await database["kept"].count_documents({})

    with running(server, folder / "log") as process:
        written = probes.blocking(write())
        process.wait()
    with running(server, folder / "log"):
        assert probes.blocking(count()) == written == 300


def test_tansu_begins_empty_and_takes_the_topics_again(folder: Path) -> None:
    server = tansu.server(folder / "kafka", free_port())
    settings = KafkaSettings(kafka_bootstrap_servers=server.address)
    for _ in range(2):
        with running(server, folder / "log") as process:
            assert create_topics(settings) == len(topics(settings)) == 6
            assert create_topics(settings) == 0
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("KAFKA_HOME"), reason="KAFKA_HOME names no Apache Kafka")
def test_apache_kafka_keeps_acknowledged_records_through_sigkill(folder: Path) -> None:
    server = apache_kafka.server(Path(os.environ["KAFKA_HOME"]), folder / "kafka", free_port(), free_port())
    settings = KafkaSettings(kafka_bootstrap_servers=server.address)

    async def send() -> int:
        async with open_producer(settings, "test") as producer:
            return (await producer.send("cairn.events.v1", key=b"k", value=b"v")).offset

    with running(server, folder / "log") as process:
        assert create_topics(settings) == 6
        assert probes.blocking(send()) == 0
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    with running(server, folder / "log"):
        assert create_topics(settings) == 0
        assert probes.blocking(send()) == 1
