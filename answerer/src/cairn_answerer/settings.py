"""The answerer's settings: one environment variable each, read once at start."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, model_validator

from cairn_shared.settings import (
    AskSettings,
    PostgresSettings,
    RedisSettings,
    RetrieverClientSettings,
    ServiceSettings,
)


class AnswererSettings(ServiceSettings, PostgresSettings, RedisSettings, RetrieverClientSettings, AskSettings):
    """Everything the answerer reads from its environment. Without `LLM_BASE_URL` it answers with excerpts."""

    port: Annotated[int, Field(ge=0, le=65535)] = 8003
    pg_pool_min: Annotated[int, Field(ge=0, description="0: starts and answers from its cache without PostgreSQL.")] = 0

    llm_base_url: Annotated[
        str | None,
        Field(
            pattern=r"^https?://",
            description="An OpenAI-compatible `/v1`; for Azure the deployment's address with `?api-version=...`.",
        ),
    ] = None
    llm_api_key: SecretStr | None = None
    llm_api_key_header: Annotated[
        str | None,
        Field(
            pattern=r"^[A-Za-z][A-Za-z0-9-]*$",
            description="The header that carries the key. Unset: `Authorization: Bearer`, for Azure `api-key`.",
        ),
    ] = None
    llm_model: str | None = None
    llm_attempt_timeout: Annotated[
        float | None, Field(gt=0, description="Seconds for one call of the model. Unset: as long as the question has.")
    ] = None
    llm_first_token_timeout: Annotated[
        float | None,
        Field(gt=0, description="Seconds to the first word or thought of a streamed call. Unset: as for a call."),
    ] = None
    llm_silence_timeout: Annotated[
        float,
        Field(gt=0, description="Seconds without a word, after the first, until a streamed call counts as hanging."),
    ] = 8.0
    llm_concurrency: Annotated[int, Field(ge=1, description="Calls of the model at once; more get excerpts.")] = 32
    llm_max_tokens: Annotated[int, Field(ge=64, description="Longest answer of the model.")] = 1024
    llm_temperature: Annotated[float, Field(ge=0, le=2)] = 0.1
    llm_attempts: Annotated[int, Field(ge=1, le=10, description="Calls for one answer when the model fails.")] = 3
    llm_context_characters: Annotated[int, Field(ge=1000, description="Most step text in one prompt.")] = 24_000
    llm_refine: Annotated[
        bool,
        Field(description="Where a question is about to be refused, let the model rewrite it for a second search."),
    ] = True
    llm_refine_timeout: Annotated[float, Field(gt=0, description="Seconds that the model may take for it.")] = 2.0

    circuit_failures: Annotated[int, Field(ge=1, description="Failed answers in a row that open the circuit.")] = 5
    circuit_open_seconds: Annotated[float, Field(gt=0, description="How long it stays open before one probe.")] = 30.0

    ask_wait: Annotated[float, Field(ge=0, description="Seconds to wait for `min_revision` and `wait_for`.")] = 2.0

    answer_leads: Annotated[
        Literal["on", "off"], Field(description="Show short words of the model's own, marked as such.")
    ] = "on"

    answer_ttl: Annotated[float, Field(gt=0, description="Seconds an answer is kept.")] = 3600.0
    answer_event_ttl: Annotated[float, Field(gt=0, description="... when events were among its sources.")] = 90.0
    answer_refusal_ttl: Annotated[float, Field(gt=0, description="... when it was a refusal.")] = 45.0
    flight_lease: Annotated[float, Field(gt=0, description="Seconds until a dead leader is replaced.")] = 3.0
    sse_keep_alive: Annotated[float, Field(gt=0, description="Seconds between comments on a quiet stream.")] = 10.0

    @property
    def llm_endpoint(self) -> str | None:
        """Where the model is: OpenAI's own address when only a key is given."""
        if self.llm_base_url:
            return self.llm_base_url
        return "https://api.openai.com/v1" if self.llm_api_key else None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.llm_endpoint and not self.llm_model:
            raise ValueError("LLM_MODEL must be set where LLM_BASE_URL or LLM_API_KEY is")
        if self.llm_endpoint and self.llm_attempt_timeout and self.ask_deadline <= self.llm_attempt_timeout:
            raise ValueError("ASK_DEADLINE must be longer than LLM_ATTEMPT_TIMEOUT")
        return self
