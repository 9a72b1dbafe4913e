"""Which processes make a stack, with which settings, in which order: the composition root of `cairn-local`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import SecretStr

from cairn_local import migrate, probes, services
from cairn_local.home import Home
from cairn_local.keeper import Unit
from cairn_local.programs import Server
from cairn_local.settings import StackSettings
from cairn_local.stores import apache_kafka, mongo, postgres, redis, tansu
from cairn_shared.settings import KafkaSettings

DATABASE = "cairn"
WEBHOOK_SECRETS = (
    "GITHUB_WEBHOOK_SECRET",
    "GITLAB_WEBHOOK_TOKEN",
    "JIRA_WEBHOOK_SECRET",
    "ALERTMANAGER_TOKEN",
    "PAGERDUTY_WEBHOOK_SECRET",
)


@dataclass(frozen=True)
class Plan:
    """Everything to start: `units` in the order of the table that the user sees."""

    units: tuple[Unit, ...]
    url: str
    broker: str


def wanted_ports(settings: StackSettings) -> dict[str, int]:
    """The ports to have if they are free. The stores' are not the usual ones: others may run on those."""
    ports = {
        "gateway": settings.cairn_port,
        "embedder": 8001,
        "retriever": 8002,
        "answerer": 8003,
        **{f"ingest-consumer-{number}": 9100 + number for number in range(1, settings.consumers + 1)},
        "postgres": 15432,
        "redis": 16379,
        "mongo": 27117,
        "kafka": 19092,
    }
    if settings.broker == "apache":
        ports["kafka-controller"] = 19093
    return ports


def build(
    settings: StackSettings,
    home: Home,
    ports: Mapping[str, int],
    secrets: Mapping[str, str],
    environ: Mapping[str, str],
) -> Plan:
    """The plan of one stack.

    Args:
        settings: The user's choices.
        home: Where data and logs go.
        ports: A port for each name of `wanted_ports`.
        secrets: What `.cairn/env` holds.
        environ: The user's environment: it is passed on, and its webhook secrets go before the generated ones.

    Raises:
        RuntimeError: a program that is needed is not installed.
    """
    stores = _stores(settings, home, ports, secrets)
    dsn = postgres.dsn(ports["postgres"], secrets["POSTGRES_PASSWORD"], DATABASE)
    kafka = {"KAFKA_BOOTSTRAP_SERVERS": stores["kafka"].address}
    redis_url = {"REDIS_URL": stores["redis"].address}
    mongo_uri = {"MONGO_URI": stores["mongo"].address}
    pg_dsn = {"PG_DSN": dsn}
    address = {name: f"http://{services.HOST}:{port}" for name, port in ports.items()}
    embedder = {"EMBEDDER_URL": address["embedder"]}
    retriever = {"RETRIEVER_URL": address["retriever"]}
    everyone = {"TOKENIZERS_PARALLELISM": "false"}
    repositories = {"ALLOW_LOCAL_REPOS": "1"}
    embedded = settings.broker == "embedded"
    gateway = {
        **{name: environ.get(name) or secrets[name] for name in WEBHOOK_SECRETS},
        "CAIRN_BOOTSTRAP_API_KEY": secrets["CAIRN_API_KEY"],
        "ANSWERER_URL": address["answerer"],
        "INGEST_CONSUMER_URLS": ",".join(
            address[f"ingest-consumer-{number}"] for number in range(1, settings.consumers + 1)
        ),
        "INBOX": "always" if embedded else "fallback",
        **({name: environ.get(name) or value for name, value in tansu.CONSUMERS.items()} if embedded else {}),
        "CAIRN_PUBLIC_URL": environ.get("CAIRN_PUBLIC_URL") or address["gateway"],
    }
    consumer = {
        # All replicas share one embedder and its two cores: a batch of long runbooks may wait for others' batches.
        "EMBEDDER_TIMEOUT": environ.get("EMBEDDER_TIMEOUT") or "60",
        **({name: environ.get(name) or value for name, value in tansu.CONSUMERS.items()} if embedded else {}),
    }
    units = [
        Unit(stores["postgres"], when_ready=_migrations(dsn)),
        Unit(stores["redis"]),
        Unit(stores["mongo"]),
        Unit(stores["kafka"], when_ready=_topics(stores["kafka"].address)),
        Unit(services.embedder(ports["embedder"], {**everyone, **redis_url})),
        Unit(
            services.retriever(ports["retriever"], {**everyone, **pg_dsn, **redis_url, **embedder}),
            needs=("postgres",),
        ),
        Unit(
            services.answerer(ports["answerer"], {**everyone, **pg_dsn, **redis_url, **retriever}),
            needs=("postgres",),
        ),
        *(
            Unit(
                services.consumer(
                    number,
                    ports[f"ingest-consumer-{number}"],
                    {**everyone, **repositories, **kafka, **pg_dsn, **mongo_uri, **embedder, **consumer},
                ),
                needs=("postgres", "mongo", "kafka"),
            )
            for number in range(1, settings.consumers + 1)
        ),
        Unit(
            services.gateway(
                ports["gateway"],
                {**everyone, **repositories, **kafka, **redis_url, **mongo_uri, **retriever, **embedder, **gateway},
            ),
            needs=("mongo", "kafka"),
        ),
    ]
    return Plan(tuple(units), address["gateway"], "tansu (in memory)" if embedded else "apache kafka (durable)")


def _stores(
    settings: StackSettings, home: Home, ports: Mapping[str, int], secrets: Mapping[str, str]
) -> dict[str, Server]:
    if settings.broker == "apache":
        assert settings.kafka_home is not None  # StackSettings has checked it
        kafka = apache_kafka.server(
            settings.kafka_home.resolve(), home.data("kafka"), ports["kafka"], ports["kafka-controller"]
        )
    else:
        kafka = tansu.server(home.data("kafka"), ports["kafka"])
    return {
        "postgres": postgres.server(home.data("postgres") / "data", ports["postgres"], secrets["POSTGRES_PASSWORD"]),
        "redis": redis.server(home.data("redis"), ports["redis"], secrets["REDIS_PASSWORD"]),
        "mongo": mongo.server(home.data("mongo"), ports["mongo"]),
        "kafka": kafka,
    }


def _migrations(dsn: str) -> Callable[[], None]:
    def run() -> None:
        try:
            probes.blocking(migrate.migrate_postgres(SecretStr(dsn)))
        except Exception as exc:
            raise RuntimeError(f"migrations failed: {type(exc).__name__}: {exc}") from exc

    return run


def _topics(bootstrap: str) -> Callable[[], None]:
    """Create the topics at every start of the broker: the one in memory forgets them."""

    def run() -> None:
        migrate.create_topics(KafkaSettings(kafka_bootstrap_servers=bootstrap))

    return run
