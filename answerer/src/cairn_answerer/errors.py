"""Why a better answer was not possible, as codes for `degraded_reason`, and the failures of the model.

CairnError
└── ModelFailure            carries the reason that the client is told
    ├── RetryableFailure    connection, time-out, 429, 5xx: tried again, and counted by the circuit breaker
    ├── RefusedByModelServer  the server refuses key or request: neither tried again nor counted
    ├── CircuitOpen         not even asked
    ├── ModelBusy           not even asked: too many answers are being written
    └── BadOutput           it answered, but nothing of it can be used
"""

from __future__ import annotations

from typing import Literal

from cairn_shared.errors import CairnError

ModelReason = Literal[
    "llm_not_configured",
    "llm_unreachable",
    "llm_error",
    "llm_timeout",
    "llm_rate_limited",
    "llm_refused_key",
    "llm_refused_request",
    "llm_busy",
    "circuit_open",
    "llm_bad_output",
    "llm_truncated",
    "claims_dropped",
]
Reason = (
    ModelReason
    | Literal[
        "embedder_unavailable",
        "retriever_unavailable",
        "postgres_unavailable",
        "index_behind",
        "deadline",
        "internal_error",
    ]
)


class ModelFailure(CairnError):
    """The model gave no usable answer; the cited steps themselves are shown instead."""

    dropped = 0
    """How many parts of its last plan do not exist."""

    def __init__(self, reason: ModelReason, detail: str) -> None:
        super().__init__(detail)
        self.reason: ModelReason = reason


class RetryableFailure(ModelFailure):
    """The provider's fault, perhaps a passing one. `retry_after` (seconds) is what the server asked for;
    `perhaps_the_request`: it may have stumbled over something optional in the request.
    """

    def __init__(
        self,
        reason: ModelReason,
        detail: str,
        *,
        retry_after: float | None = None,
        perhaps_the_request: bool = False,
    ) -> None:
        super().__init__(reason, detail)
        self.retry_after = retry_after
        self.perhaps_the_request = perhaps_the_request


class RefusedByModelServer(ModelFailure):
    """401, 403 and other 4xx: the same request fails again, and the provider is healthy."""

    def __init__(self, reason: ModelReason, detail: str, *, status: int, complaint: str = "") -> None:
        super().__init__(reason, detail)
        self.http_status = status
        self.complaint = complaint
        """The server's own words: to learn from, not to show."""


class CircuitOpen(ModelFailure):
    """The model failed several times in a row and is left alone for a while."""

    def __init__(self) -> None:
        super().__init__("circuit_open", "the model failed repeatedly and is left alone for a while")


class ModelBusy(ModelFailure):
    """As many answers are being written as the model is to write at once."""

    def __init__(self) -> None:
        super().__init__("llm_busy", "the model has as much to write as it can")


class BadOutput(ModelFailure):
    """The model's text chooses nothing that it was shown."""

    def __init__(self, detail: str = "the model's output cannot be used", *, dropped: int = 0) -> None:
        super().__init__("llm_bad_output", detail)
        self.dropped = dropped
