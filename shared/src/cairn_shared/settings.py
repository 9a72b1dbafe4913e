"""Settings, one class per infrastructure, composed by each service and read once at start.

Every field is an environment variable of the same name in capitals. A service's own class inherits
the ones that it needs; `load` turns a missing or wrong variable into one line and exit code 2.
"""

from __future__ import annotations

import sys
from typing import Annotated, Literal, NoReturn, Self, TypeVar

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Base of all settings: frozen, from the environment only, empty strings count as unset."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True, hide_input_in_errors=True)


class ServiceSettings(Settings):
    """What every process has."""

    host: Annotated[str, Field(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="Port to listen on.")]
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR"], Field(description="Least severe log that is written.")
    ] = "INFO"
    app_version: Annotated[str, Field(description="Shown by /health and in dead letters.")] = "0.1.0"
    service_token: Annotated[
        SecretStr | None,
        Field(
            min_length=16, description="Of all Cairn's processes: they serve one another with it, and nobody without."
        ),
    ] = None
    service_token_previous: Annotated[
        SecretStr | None, Field(min_length=16, description="Accepted as well, while the token is changed.")
    ] = None
    api_docs: Annotated[bool, Field(description="Serve /docs, /redoc and /openapi.json, without a key.")] = True
    bodies_mib: Annotated[
        int, Field(ge=1, description="Memory for request bodies, all together, in MiB; more are told to come again.")
    ] = 256
    header_timeout: Annotated[float, Field(gt=0, description="Seconds for the head of a request to arrive.")] = 15.0
    connections_per_address: Annotated[
        int, Field(ge=0, description="Most connections of one address; 0 for no limit (behind a proxy).")
    ] = 4096
    shutdown_timeout: Annotated[float, Field(gt=0, description="Seconds for a graceful stop.")] = 20.0


class KafkaSettings(Settings):
    """How to reach the broker."""

    kafka_bootstrap_servers: Annotated[str, Field(min_length=1, description="host:port, several with commas.")]
    kafka_replication_factor: Annotated[int, Field(ge=1, description="Of topics that the migrate job creates.")] = 1
    kafka_partitions: Annotated[int, Field(ge=1, description="Of topics that the migrate job creates.")] = 6
    kafka_max_message_bytes: Annotated[int, Field(ge=1024, description="Largest record, enforced by the producer.")] = (
        4 * 1024 * 1024
    )
    kafka_delivery_timeout: Annotated[float, Field(gt=0, description="Seconds until a produce counts as failed.")] = 6.0
    kafka_security_protocol: Annotated[
        Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"], Field(description="How the broker is spoken to.")
    ] = "PLAINTEXT"
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = None
    kafka_sasl_username: Annotated[str | None, Field(description="For PLAIN and SCRAM; OAUTHBEARER's client id.")] = (
        None
    )
    kafka_sasl_password: Annotated[
        SecretStr | None, Field(description="For PLAIN and SCRAM; OAUTHBEARER's client secret.")
    ] = None
    kafka_oauth_token_url: Annotated[
        str | None, Field(pattern=r"^https?://", description="Where OAUTHBEARER's tokens come from (OIDC).")
    ] = None
    kafka_oauth_scope: Annotated[str | None, Field(description="Asked for with OAUTHBEARER's tokens.")] = None
    kafka_ssl_ca: Annotated[str | None, Field(description="File of certificates that the broker's ends in.")] = None
    kafka_ssl_certificate: Annotated[str | None, Field(description="File of a certificate to show the broker.")] = None
    kafka_ssl_key: Annotated[str | None, Field(description="File of that certificate's key.")] = None
    kafka_ssl_key_password: SecretStr | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """Refuse at the start what the client would refuse at every connection."""
        if not self.kafka_security_protocol.startswith("SASL"):
            return self
        if self.kafka_sasl_mechanism is None:
            raise ValueError("KAFKA_SECURITY_PROTOCOL=SASL_... needs KAFKA_SASL_MECHANISM")
        if self.kafka_sasl_username is None or self.kafka_sasl_password is None:
            raise ValueError(f"{self.kafka_sasl_mechanism} needs KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD")
        if self.kafka_sasl_mechanism == "OAUTHBEARER" and self.kafka_oauth_token_url is None:
            raise ValueError("OAUTHBEARER needs KAFKA_OAUTH_TOKEN_URL")
        return self


class PostgresSettings(Settings):
    """How to reach PostgreSQL with pgvector."""

    pg_dsn: Annotated[SecretStr, Field(description="postgresql://user:password@host:port/database")]
    pg_pool_min: Annotated[int, Field(ge=0, description="Connections kept open.")] = 1
    pg_pool_max: Annotated[int, Field(ge=1, description="Most connections of this process.")] = 8
    pg_command_timeout: Annotated[float, Field(gt=0, description="Seconds for one statement.")] = 10.0


class MongoSettings(Settings):
    """How to reach MongoDB; transactions need a replica set."""

    mongo_uri: Annotated[SecretStr, Field(description="mongodb://..., of a replica set.")]
    mongo_database: Annotated[str, Field(min_length=1, description="Name of the database.")] = "cairn"
    mongo_timeout: Annotated[
        float, Field(gt=0, description="Seconds for one operation, server selection included.")
    ] = 5.0


class RedisSettings(Settings):
    """How to reach Redis. Losing it costs speed only."""

    redis_url: Annotated[SecretStr, Field(description="redis://host:port/database")]
    redis_timeout: Annotated[float, Field(gt=0, description="Seconds for one command.")] = 0.25


class EmbedderClientSettings(Settings):
    """Where the embedder is."""

    embedder_url: Annotated[str, Field(pattern=r"^https?://", description="Where the embedder is.")]
    embedder_timeout: Annotated[float, Field(gt=0, description="Seconds for one request.")] = 10.0


class EmbeddersClientSettings(EmbedderClientSettings):
    """Where the embedder is, and another one during a change of models."""

    embedder_next_url: Annotated[
        str | None,
        Field(pattern=r"^https?://", description="An embedder with another model, to change to or to go back to."),
    ] = None

    def embedder_urls(self) -> tuple[str, ...]:
        """Every embedder, in the order of preference of the settings."""
        return (self.embedder_url, *([self.embedder_next_url] if self.embedder_next_url else []))


class RetrieverClientSettings(Settings):
    """Where the retriever is."""

    retriever_url: Annotated[str, Field(pattern=r"^https?://", description="Where the retriever is.")]
    retriever_timeout: Annotated[float, Field(gt=0, description="Seconds for one request.")] = 5.0


class AnswererClientSettings(Settings):
    """Where the answerer is."""

    answerer_url: Annotated[str, Field(pattern=r"^https?://", description="Where the answerer is.")]


class AskSettings(Settings):
    """What gateway and answerer both know of questions."""

    ask_deadline: Annotated[
        float, Field(gt=0, description="Seconds from a question's arrival to its answer, retries included.")
    ] = 20.0


SettingsT = TypeVar("SettingsT", bound=BaseSettings)


def load(settings: type[SettingsT]) -> SettingsT:
    """Read `settings` from the environment, or say which variable is wrong and exit with code 2."""
    try:
        return settings()
    except ValidationError as exc:
        _refuse(exc)


def _refuse(exc: ValidationError) -> NoReturn:
    for error in exc.errors(include_input=False, include_url=False):
        name = "_".join(str(part) for part in error["loc"]).upper() or "SETTINGS"
        print(f"setting {name}: {error['msg']}", file=sys.stderr)
    raise SystemExit(2)
