"""A real forge (Gitea), a real gateway and a real consumer, over real stores."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from cairn_local.migrate import create_topics
from cairn_local.programs import python_module
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
    """A gateway and its consumers, with the address of each one's metrics; `http` has the admin's key."""

    url: str
    secret: str
    http: httpx.Client
    consumers: list[subprocess.Popen[bytes]]
    consumer_urls: list[str]


StartCairn = Callable[..., AbstractContextManager[Cairn]]


@pytest.fixture
def start_cairn(postgres_dsn: str, mongo_settings: MongoSettings, redis_url: str, embedder_url: str) -> StartCairn:
    """`start_cairn(consumers, **environment)`: real processes, with a broker of their own, so that other tests' events
    are none of theirs.
    """
    stores = {
        "MONGO_URI": mongo_settings.mongo_uri.get_secret_value(),
        "MONGO_DATABASE": mongo_settings.mongo_database,
        "REDIS_URL": redis_url,
        "PG_DSN": postgres_dsn,
        "EMBEDDER_URL": embedder_url,
    }

    @contextmanager
    def start(consumers: int = 1, **environment: str) -> Iterator[Cairn]:
        own = TestServers.create()
        secret, port = secrets.token_hex(16), free_port()
        try:
            bootstrap = own.kafka()
            create_topics(KafkaSettings(kafka_bootstrap_servers=bootstrap))
            shared = {"KAFKA_BOOTSTRAP_SERVERS": bootstrap, **stores, **environment}
            gateway = {
                "PORT": str(port),
                "RETRIEVER_URL": "http://127.0.0.1:1",
                "ANSWERER_URL": "http://127.0.0.1:1",
                "CAIRN_BOOTSTRAP_API_KEY": KEY,
                "GITHUB_WEBHOOK_SECRET": secret,
            }
            ports = [free_port() for _ in range(consumers)]
            with ExitStack() as stack:
                stack.enter_context(_process("cairn_gateway", {**shared, **gateway}, own.folder / "gateway.log"))
                running = []
                for number in ports:
                    values = {**shared, "PORT": str(number), "CONSUMER_SESSION_TIMEOUT": "3"}
                    log = own.folder / f"consumer-{number}.log"
                    running.append(stack.enter_context(_process("cairn_ingest_consumer", values, log)))
                url = f"http://127.0.0.1:{port}"
                headers = {"authorization": f"Bearer {KEY}"}
                http = stack.enter_context(httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=20))
                for address in (port, *ports):
                    _until_ready(http, f"http://127.0.0.1:{address}/health/ready")
                yield Cairn(url, secret, http, running, [f"http://127.0.0.1:{number}" for number in ports])
        finally:
            own.stop()

    return start


@pytest.fixture
def cairn(forge: Forge, start_cairn: StartCairn) -> Iterator[Cairn]:
    """A gateway and a consumer that may read the forge."""
    with start_cairn(GITEA_API_URL=f"{forge.url}/api/v1", GITEA_TOKEN=forge.token) as started:
        yield started


@contextmanager
def _process(module: str, environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("w") as out:
        process = subprocess.Popen(
            [*python_module(module)], env={**os.environ, **environment}, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until_ready(http: httpx.Client, address: str, within: float = 150.0) -> None:
    deadline = time.monotonic() + within
    while True:
        try:
            if http.get(address).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        assert time.monotonic() < deadline, f"{address} is not ready"
        time.sleep(0.1)
