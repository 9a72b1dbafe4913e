"""Settings of the gateway."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr, field_validator

from cairn_gateway.repository_file import read_file
from cairn_shared.errors import InvalidInput
from cairn_shared.kafka.policy import ConsumerPolicy
from cairn_shared.repositories.hosts import RepositorySettings
from cairn_shared.settings import (
    AnswererClientSettings,
    AskSettings,
    KafkaSettings,
    MongoSettings,
    RedisSettings,
    RetrieverClientSettings,
    ServiceSettings,
    Settings,
)


def _readable(path: str) -> str:
    """Refuse at the start what would otherwise fail later."""
    try:
        read_file(path)
    except InvalidInput as exc:
        raise ValueError(exc.detail) from exc
    return path


class SourceSettings(Settings):
    """The secrets by which sources prove themselves. Without its secret a source is refused.

    The `_previous` ones are accepted as well, so that a secret can be changed without losing deliveries.
    """

    github_webhook_secret: SecretStr | None = None
    github_webhook_secret_previous: SecretStr | None = None
    gitlab_webhook_token: SecretStr | None = None
    gitlab_webhook_token_previous: SecretStr | None = None
    jira_webhook_secret: SecretStr | None = None
    jira_webhook_secret_previous: SecretStr | None = None
    alertmanager_token: SecretStr | None = None
    alertmanager_token_previous: SecretStr | None = None
    pagerduty_webhook_secret: SecretStr | None = None
    pagerduty_webhook_secret_previous: SecretStr | None = None
    runbook_repos: Annotated[
        Annotated[str, AfterValidator(_readable)] | None,
        Field(description="A YAML file that declares runbook repositories."),
    ] = None
    repo_sync_interval: Annotated[float, Field(gt=0, description="Seconds after which a repository is synced.")] = (
        3600.0
    )


class CompatSettings(Settings):
    """What other programs' protocols need."""

    embedder_url: Annotated[
        str | None, Field(pattern=r"^https?://", description="For /v1/embeddings; without it they are answered 503.")
    ] = None
    embedder_timeout: Annotated[float, Field(gt=0, description="Seconds for one request to the embedder.")] = 10.0
    mcp_allowed_origins: Annotated[
        str, Field(description="Origins of web pages that may use /mcp, separated by commas; programs send none.")
    ] = ""


class StatusSettings(Settings):
    """What the status page looks at besides what the gateway itself talks to."""

    ingest_consumer_urls: Annotated[
        str, Field(description="Addresses of the consumers' health pages, separated by commas, for /status.")
    ] = ""

    @property
    def consumers(self) -> tuple[str, ...]:
        """The addresses, in their order."""
        return tuple(url.strip() for url in self.ingest_consumer_urls.split(",") if url.strip())

    @field_validator("ingest_consumer_urls")
    @classmethod
    def _addresses(cls, value: str) -> str:
        for url in value.split(","):
            if url.strip() and not url.strip().startswith(("http://", "https://")):
                raise ValueError("each address begins with http:// or https://")
        return value


class DeadLetterSettings(Settings):
    """How the dead letter topics are read."""

    dlq_group: Annotated[
        str, Field(min_length=1, description="Consumer group that reads the dead letter topics into MongoDB.")
    ] = "cairn-dlq"
    dlq_keep_days: Annotated[
        float, Field(gt=0, description="How long resolved and discarded letters are kept; open ones always are.")
    ] = 90.0
    consumer_leave_group: Annotated[
        bool,
        Field(
            description="Tell the group at a clean end; false for a broker that keeps a leader which has left (Tansu)."
        ),
    ] = True
    consumer_session_timeout: Annotated[
        float, Field(ge=1, description="Seconds until a silent member's partitions move.")
    ] = 10.0

    def reading(self) -> ConsumerPolicy:
        """How the indexer consumes: in large batches, and from the beginning where its place is gone."""
        return ConsumerPolicy(
            batch_records=200,
            buffer_records=500,
            session_timeout=self.consumer_session_timeout,
            leave_group=self.consumer_leave_group,
            expired_offset="earliest",
            drain_timeout=5.0,
        )


class QuestionSettings(Settings):
    """What is kept of questions."""

    question_log_days: Annotated[
        float, Field(ge=0, le=3650, description="How long questions are kept (redacted); 0 keeps none.")
    ] = 30.0


class ConsoleSettings(Settings):
    """The console in the browser."""

    console: Annotated[bool, Field(description="Serve the console at /console.")] = True
    console_secret: Annotated[
        SecretStr | None,
        Field(
            min_length=16,
            description="Encrypts sessions; replicas need the same. Without it a restart ends them.",
        ),
    ] = None
    console_session_hours: Annotated[float, Field(gt=0, le=24 * 30, description="How long a session lasts.")] = 12.0


class GatewaySettings(
    ServiceSettings,
    KafkaSettings,
    MongoSettings,
    RedisSettings,
    RetrieverClientSettings,
    AnswererClientSettings,
    AskSettings,
    SourceSettings,
    RepositorySettings,
    CompatSettings,
    StatusSettings,
    DeadLetterSettings,
    QuestionSettings,
    ConsoleSettings,
):
    """Everything the gateway reads from the environment."""

    port: Annotated[int, Field(ge=0, le=65535, description="Port to listen on.")] = 8000

    cairn_bootstrap_api_key: Annotated[
        SecretStr | None, Field(min_length=16, description="An admin key that works before any user exists.")
    ] = None
    auth_cache_seconds: Annotated[
        float, Field(ge=0, description="How long a good key is believed without asking MongoDB.")
    ] = 1.0
    rate_limit_per_minute: Annotated[int, Field(ge=0, description="Requests of one key a minute; 0: no limit.")] = (
        30_000
    )
    rate_limit_burst: Annotated[int, Field(ge=1, description="Requests of one key that may come at once.")] = 1_000

    inbox: Annotated[
        Literal["fallback", "always"],
        Field(description="`always` where the broker's log is not durable: store first, forget when the index has it."),
    ] = "fallback"
    accept_timeout: Annotated[
        float, Field(gt=0, description="Seconds that a webhook waits for Kafka before its events go to the inbox.")
    ] = 3.0
    republish_after: Annotated[
        float, Field(gt=0, description="INBOX=always: seconds after which an unsettled event is published again.")
    ] = 10.0
    outbox_keep_days: Annotated[float, Field(gt=0, description="How long published entries are kept as evidence.")] = (
        7.0
    )

    relay_poll_interval: Annotated[float, Field(gt=0, description="Seconds between looks at the outbox.")] = 1.0
    lease_seconds: Annotated[float, Field(gt=0.3, description="A relay that is silent for so long is replaced.")] = 4.0
    reconcile_interval: Annotated[
        float, Field(ge=0, description="Seconds between comparisons of MongoDB with the index; 0: never.")
    ] = 300.0
    reconcile_grace: Annotated[
        float, Field(ge=0, description="Seconds that a change may be on its way before it counts as a difference.")
    ] = 30.0
