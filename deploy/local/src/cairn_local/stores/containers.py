"""The four stores as containers, through testcontainers, where Docker has their images.

Each container is kept by a process of its own (`python -m cairn_local.stores.containers NAME PORT`), so that it
starts, stops and is watched over like any other program.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from cairn_local import probes
from cairn_local.programs import Program, Server, python_module
from cairn_local.stores.postgres import dsn


@dataclass(frozen=True)
class Image:
    """What to run: `{port}` in values is the published port, `{password}` comes from STORE_PASSWORD."""

    name: str
    port: int
    env: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    after: tuple[str, ...] = ()
    """A command to run inside, repeated until it succeeds."""


IMAGES = {
    "postgres": Image(
        "pgvector/pgvector:pg18",
        5432,
        {"POSTGRES_USER": "cairn", "POSTGRES_PASSWORD": "{password}", "POSTGRES_DB": "postgres"},
        "postgres -c fsync=off -c max_connections=300",
    ),
    "redis": Image("redis:8", 6379, {}, "redis-server --requirepass {password} --databases 4096"),
    "mongo": Image(
        "mongo:8",
        27017,
        {},
        "mongod --replSet rs0 --bind_ip_all",
        (
            "mongosh",
            "--quiet",
            "--eval",
            "try { rs.status().ok } catch (e) { rs.initiate({_id: 'rs0', members: [{_id: 0, host: 'localhost'}]}).ok }",
        ),
    ),
    "kafka": Image(
        "apache/kafka:4.3.1",
        9092,
        {
            "KAFKA_NODE_ID": "1",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
            "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://127.0.0.1:{port}",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            "KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS": "1000",  # tests do not wait long for a dead member
            "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        },
    ),
}


def available() -> bool:
    """Whether a Docker engine answers and has every image; nothing is ever pulled."""
    try:
        import docker
    except ImportError:
        return False
    if not _engine_listens():
        return False
    try:
        client = docker.from_env(timeout=3)
    except docker.errors.DockerException:
        return False
    try:
        for image in IMAGES.values():
            client.images.get(image.name)
    except (docker.errors.DockerException, OSError):
        return False
    finally:
        client.close()
    return True


def _engine_listens() -> bool:
    """Asked with a plain socket first: docker's own client leaks one when nobody answers."""
    url = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not url.startswith("unix://"):
        return True
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(url.removeprefix("unix://"))
        except OSError:
            return False
    return True


def postgres(port: int, password: str) -> Server:
    """PostgreSQL with pgvector."""
    address = dsn(port, password, "postgres")
    return Server(_program("postgres", port, password), lambda: probes.postgres(address), address)


def redis(port: int, password: str) -> Server:
    """Redis."""
    return Server(
        _program("redis", port, password),
        lambda: probes.redis(port, password),
        f"redis://:{password}@127.0.0.1:{port}/0",
    )


def mongo(port: int) -> Server:
    """MongoDB as a replica set of one."""
    address = f"mongodb://127.0.0.1:{port}/?directConnection=true"
    return Server(_program("mongo", port), lambda: probes.mongo_primary(address), address, ready_timeout=90)


def kafka(port: int) -> Server:
    """Apache Kafka, one combined node."""
    address = f"127.0.0.1:{port}"
    return Server(_program("kafka", port), lambda: probes.kafka(address), address, ready_timeout=90)


def _program(name: str, port: int, password: str = "") -> Program:
    return Program(
        name=name,
        argv=(*python_module("cairn_local.stores.containers"), name, str(port)),
        env={"STORE_PASSWORD": password, "TESTCONTAINERS_RYUK_DISABLED": "true"},
    )


def main() -> None:
    """Keep one container until SIGTERM."""
    import time

    from testcontainers.core.container import DockerContainer

    name, port = sys.argv[1], int(sys.argv[2])
    image = IMAGES[name]
    values = {"port": str(port), "password": os.environ.get("STORE_PASSWORD", "")}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    container = DockerContainer(image.name)
    # Only on this machine; docker-py knows (address, port), which testcontainers' own method does not.
    container.ports[f"{image.port}/tcp"] = ("127.0.0.1", port)  # type: ignore[assignment]
    for variable, value in image.env.items():
        container.with_env(variable, value.format(**values))
    if image.command:
        container.with_command(image.command.format(**values))
    with container:
        while image.after and container.exec(list(image.after)).exit_code:
            time.sleep(0.5)
        signal.pause()


if __name__ == "__main__":
    main()
