"""Does a server answer? One blocking function a protocol; each raises `NotReady` while it does not."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import asyncpg
import httpx
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from pydantic import SecretStr

from cairn_shared.mongo import MongoError, open_database
from cairn_shared.postgres import FAILURES
from cairn_shared.settings import MongoSettings

T = TypeVar("T")
TIMEOUT = 3.0


class NotReady(RuntimeError):
    """The server does not answer yet; the text says what happened."""


def blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end from blocking code, also where this thread has a running loop."""
    result: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            result.append(asyncio.run(work))
        except BaseException as exc:  # noqa: BLE001 - carried over to the caller's thread
            failure.append(exc)

    thread = threading.Thread(target=run, name="blocking", daemon=True)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]


def postgres(dsn: str) -> None:
    """PostgreSQL accepts a connection and answers."""

    async def ask() -> None:
        connection = await asyncpg.connect(dsn, timeout=TIMEOUT)
        try:
            await connection.execute("SELECT 1", timeout=TIMEOUT)
        finally:
            await connection.close(timeout=TIMEOUT)

    try:
        blocking(ask())
    except FAILURES as exc:
        raise NotReady(f"{type(exc).__name__}: {exc}") from exc


def redis(port: int, password: str) -> None:
    """Redis answers PONG (not LOADING)."""
    try:
        with socket.create_connection(("127.0.0.1", port), TIMEOUT) as connection:
            connection.settimeout(TIMEOUT)
            connection.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            answer = b""
            while answer.count(b"\r\n") < 2:
                data = connection.recv(1024)
                if not data:
                    break
                answer += data
    except OSError as exc:
        raise NotReady(str(exc)) from exc
    if b"+PONG" not in answer:
        raise NotReady(answer.decode(errors="replace").strip())


def mongo(uri: str) -> None:
    """MongoDB answers a ping."""

    async def ask() -> None:
        settings = MongoSettings(mongo_uri=SecretStr(uri), mongo_timeout=TIMEOUT)
        async with asyncio.timeout(TIMEOUT), open_database(settings, "probe"):
            pass

    port(uri)  # refused at once while nothing listens
    try:
        blocking(ask())
    except (MongoError, OSError, TimeoutError) as exc:
        raise NotReady(f"{type(exc).__name__}: {exc}") from exc


def port(url: str) -> None:
    """Something listens at the host and port of `url`."""
    location = httpx.URL(url)
    try:
        socket.create_connection((location.host, location.port or 80), TIMEOUT).close()
    except OSError as exc:
        raise NotReady(str(exc)) from exc


def kafka(bootstrap: str) -> None:
    """The broker answers a metadata request."""
    port(f"tcp://{bootstrap}")
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "socket.timeout.ms": int(TIMEOUT * 1000)})
    try:
        client.list_topics(timeout=TIMEOUT)
    except KafkaException as exc:
        raise NotReady(exc.args[0].str()) from exc


def http(url: str) -> None:
    """GET gives 200; a problem's detail is passed on."""
    try:
        answer = httpx.get(url, timeout=TIMEOUT, trust_env=False)
    except httpx.HTTPError as exc:
        raise NotReady(f"{type(exc).__name__}: {exc}") from exc
    if answer.status_code != 200:
        try:
            detail = answer.json().get("detail")
        except ValueError:
            detail = None
        raise NotReady(str(detail or f"HTTP {answer.status_code}"))


def mongo_primary(uri: str) -> None:
    """MongoDB answers and takes writes: its replica set has elected it."""
    from pymongo import MongoClient

    mongo(uri)
    with MongoClient[dict[str, Any]](uri, serverSelectionTimeoutMS=2000) as client:
        if not client.admin.command("hello").get("isWritablePrimary"):
            raise NotReady("no primary yet")
