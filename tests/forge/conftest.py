"""A real forge (Gitea), a real gateway and a real consumer, over real stores."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from cairn_local.migrate import create_topics
from cairn_local.testservers import TestServers
from cairn_shared.settings import KafkaSettings, MongoSettings

SCRIPT = Path(__file__).parents[3] / "shared" / "forge" / "forge"
KEY = "a-bootstrap-key-for-tests"


def free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


@dataclass(frozen=True)
class Forge:
    """Where the forge is; `http` is authorised."""

    url: str
    user: str
    password: str
    token: str
    http: httpx.Client

    def clone_url(self, name: str) -> str:
        return self.url.replace("://", f"://{self.user}:{self.password}@") + f"/{self.user}/{name}.git"


@pytest.fixture(scope="session")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    """Gitea in a folder of its own."""
    if not SCRIPT.is_file():
        pytest.skip("the forge is not beside this checkout")
    environment = {**os.environ, "FORGE": str(tmp_path_factory.mktemp("forge")), "FORGE_PORT": str(free_port())}
    # Its server would hold a pipe open for as long as it runs, so the output goes to a file.
    told = Path(environment["FORGE"]) / "told"
    with told.open("w") as out:
        subprocess.run(
            [str(SCRIPT), "up"], env=environment, check=True, stdout=out, stderr=subprocess.DEVNULL, timeout=90
        )
    values = dict(word.split("=", 1) for word in told.read_text().split() if "=" in word)
    url = values["FORGE_URL"]
    try:
        headers = {"authorization": f"token {values['FORGE_TOKEN']}"}
        with httpx.Client(base_url=f"{url}/api/v1/", headers=headers, trust_env=False, timeout=20) as http:
            yield Forge(url, values["FORGE_USER"], values["FORGE_PASSWORD"], values["FORGE_TOKEN"], http)
    finally:
        subprocess.run([str(SCRIPT), "down"], env=environment, check=False, stdout=subprocess.DEVNULL, timeout=30)


@dataclass(frozen=True)
class Cairn:
    """A gateway and a consumer; `http` has the admin's key."""

    url: str
    secret: str
    http: httpx.Client


@pytest.fixture
def cairn(
    forge: Forge, postgres_dsn: str, mongo_settings: MongoSettings, redis_url: str, embedder_url: str
) -> Iterator[Cairn]:
    """Both as processes, with a broker of their own: other tests' events are none of theirs."""
    own = TestServers.create()
    logs = own.folder
    secret = secrets.token_hex(16)
    port = free_port()
    try:
        bootstrap = own.kafka()
        create_topics(KafkaSettings(kafka_bootstrap_servers=bootstrap))
        shared = {
            "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
            "MONGO_URI": mongo_settings.mongo_uri.get_secret_value(),
            "MONGO_DATABASE": mongo_settings.mongo_database,
            "REDIS_URL": redis_url,
            "PG_DSN": postgres_dsn,
            "EMBEDDER_URL": embedder_url,
            "GITEA_API_URL": f"{forge.url}/api/v1",
            "GITEA_TOKEN": forge.token,
        }
        gateway = {
            "PORT": str(port),
            "RETRIEVER_URL": "http://127.0.0.1:1",
            "ANSWERER_URL": "http://127.0.0.1:1",
            "CAIRN_BOOTSTRAP_API_KEY": KEY,
            "GITHUB_WEBHOOK_SECRET": secret,
        }
        consumer = {"PORT": str(free_port()), "CONSUMER_SESSION_TIMEOUT": "3"}
        with ExitStack() as stack:
            stack.enter_context(_process("cairn_gateway", {**shared, **gateway}, logs))
            stack.enter_context(_process("cairn_ingest_consumer", {**shared, **consumer}, logs))
            url = f"http://127.0.0.1:{port}"
            headers = {"authorization": f"Bearer {KEY}"}
            http = stack.enter_context(httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=20))
            _until(lambda: http.get("/health/ready").status_code == 200, "the gateway is not ready")
            ready = f"http://127.0.0.1:{consumer['PORT']}/health/ready"
            _until(lambda: http.get(ready).status_code == 200, "the consumer is not ready")
            yield Cairn(url, secret, http)
    finally:
        own.stop()


@contextmanager
def _process(module: str, environment: dict[str, str], folder: Path) -> Iterator[None]:
    with (folder / f"{module}.log").open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", module], env={**os.environ, **environment}, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until(condition: Any, otherwise: str, within: float = 45.0) -> None:
    deadline = time.monotonic() + within
    while True:
        try:
            if condition():
                return
        except httpx.HTTPError:
            pass
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.1)
