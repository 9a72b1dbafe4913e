"""The consumer's settings."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, model_validator

from cairn_ingest_consumer.expanding import ExpandPolicy
from cairn_ingest_consumer.rebuild import RebuildPolicy
from cairn_shared.events import TOPIC_EVENTS, TOPIC_REPO_CHANGES, TOPIC_RUNBOOKS
from cairn_shared.kafka.policy import ConsumerPolicy
from cairn_shared.repositories.hosts import RepositorySettings
from cairn_shared.settings import (
    EmbeddersClientSettings,
    KafkaSettings,
    MongoSettings,
    PostgresSettings,
    ServiceSettings,
)


class IngestSettings(ServiceSettings, KafkaSettings, PostgresSettings, EmbeddersClientSettings, RepositorySettings):
    """Environment variables of `python -m cairn_ingest_consumer`."""

    mongo_uri: Annotated[
        SecretStr | None, Field(description="Where runbooks are. Without it this replica syncs no repositories.")
    ] = None
    mongo_database: Annotated[str, Field(min_length=1)] = "cairn"
    mongo_timeout: Annotated[float, Field(gt=0, description="Seconds for one operation.")] = 5.0
    repo_sync_budget: Annotated[
        float, Field(gt=0, description="Seconds after which a sync leaves the rest to the next one.")
    ] = 120.0

    push_fetch_commits: Annotated[
        int, Field(ge=1, description="Most commits asked for of a push whose sender did not list them all.")
    ] = 10_000

    port: Annotated[int, Field(ge=0, le=65535, description="Port of health and metrics.")] = 9101
    consumer_group: Annotated[str, Field(min_length=1, description="Replicas of one group share the partitions.")] = (
        "cairn-ingest"
    )
    consumer_topics: Annotated[
        tuple[str, ...], Field(min_length=1, description="A JSON list; with MONGO_URI those of repositories too.")
    ] = (TOPIC_RUNBOOKS, TOPIC_EVENTS)
    consumer_protocol: Annotated[
        Literal["classic", "consumer"],
        Field(description="`classic` is cooperative-sticky; `consumer` is KIP-848, for brokers from 4.0 on."),
    ] = "classic"
    consumer_expired_offset: Annotated[
        Literal["stop", "earliest"], Field(description="When retention deleted records that were never read.")
    ] = "stop"
    consumer_session_timeout: Annotated[
        float, Field(ge=1, description="Seconds until a silent member's partitions move (classic).")
    ] = 10.0
    consumer_leave_group: Annotated[
        bool,
        Field(
            description="Tell the group at a clean end; false for a broker that keeps a leader which has left (Tansu)."
        ),
    ] = True
    batch_records: Annotated[int, Field(ge=1, le=500)] = 10
    batch_wait: Annotated[float, Field(ge=0, le=10, description="Seconds after a batch's first record.")] = 0.2
    buffer_records: Annotated[int, Field(ge=1, description="Per partition; fetching pauses there.")] = 200
    drain_timeout: Annotated[float, Field(gt=0, le=60, description="Seconds to finish a batch on revoke.")] = 10.0
    stuck_after: Annotated[
        float, Field(gt=0, description="Seconds without progress, with lag, that end the process.")
    ] = 300.0
    poison_max_run: Annotated[int, Field(ge=1, description="Dead letters in a row that stop a partition.")] = 25
    poison_max_share: Annotated[float, Field(gt=0, le=1, description="Share of dead letters that stops it.")] = 0.5
    lexeme_interval: Annotated[float, Field(gt=0, description="Seconds between refreshes of word statistics.")] = 30.0
    ledger_days: Annotated[int, Field(ge=1, description="How long the ends of events are kept.")] = 90
    embedder_timeout: Annotated[float, Field(gt=0, description="Seconds for one request of some passages.")] = 30.0
    rebuild_batch: Annotated[int, Field(ge=1, le=256, description="Chunks embedded at once for a new model.")] = 32
    rebuild_share: Annotated[
        float, Field(gt=0, le=1, description="Share of the time spent on embedding for a new model.")
    ] = 0.5
    rebuild_interval: Annotated[
        float, Field(gt=0, description="Seconds between looks for vectors that are missing.")
    ] = 15.0
    expand: Annotated[
        Literal["off", "llm"],
        Field(description="`llm`: a model writes questions that each runbook answers; searches are led by them."),
    ] = "off"
    expand_questions: Annotated[int, Field(ge=1, le=20, description="Most questions of one runbook.")] = 6
    expand_timeout: Annotated[float, Field(gt=0, description="Seconds for one call of the model.")] = 60.0
    llm_base_url: Annotated[
        str | None, Field(pattern=r"^https?://", description="An OpenAI-compatible `/v1`, for EXPAND=llm.")
    ] = None
    llm_api_key: Annotated[SecretStr | None, Field(description="Of that endpoint.")] = None
    llm_model: Annotated[str | None, Field(description="The model's name there.")] = None
    llm_api_key_header: Annotated[
        str | None, Field(description="Header of the key; unset: as the answerer finds it out.")
    ] = None
    git_sha: Annotated[str | None, Field(description="Of the build, for dead letters.")] = None

    @model_validator(mode="after")
    def _can_expand(self) -> Self:
        if self.expand == "llm" and not (self.llm_base_url and self.llm_model):
            raise ValueError("EXPAND=llm needs LLM_BASE_URL and LLM_MODEL")
        return self

    def mongo(self) -> MongoSettings | None:
        """How to reach MongoDB, where this replica may."""
        if self.mongo_uri is None:
            return None
        return MongoSettings(
            mongo_uri=self.mongo_uri, mongo_database=self.mongo_database, mongo_timeout=self.mongo_timeout
        )

    def rebuild(self) -> RebuildPolicy:
        """How vectors of another model come into being."""
        return RebuildPolicy(batch=self.rebuild_batch, share=self.rebuild_share, interval=self.rebuild_interval)

    def expansion(self) -> ExpandPolicy:
        """How questions are made."""
        return ExpandPolicy(
            most=self.expand_questions, seconds=self.expand_timeout, lease=2 * self.expand_timeout + 60.0
        )

    def topics(self) -> tuple[str, ...]:
        """What this replica consumes."""
        sync = (TOPIC_REPO_CHANGES,) if self.mongo_uri is not None else ()
        return tuple(dict.fromkeys((*self.consumer_topics, *sync)))

    def policy(self) -> ConsumerPolicy:
        """The engine's policy."""
        return ConsumerPolicy(
            batch_records=self.batch_records,
            batch_wait=self.batch_wait,
            buffer_records=max(self.buffer_records, self.batch_records),
            drain_timeout=min(self.drain_timeout, self.shutdown_timeout * 0.6),
            stuck_after=self.stuck_after,
            session_timeout=self.consumer_session_timeout,
            protocol=self.consumer_protocol,
            leave_group=self.consumer_leave_group,
            expired_offset=self.consumer_expired_offset,
        )
