"""What the pipeline needs from the world."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cairn_answerer.model import CorpusState, Passage
from cairn_shared.api.search import SearchRequest, SearchResponse


class Retriever(Protocol):
    """Finds passages."""

    async def search(self, request: SearchRequest, timeout: float) -> SearchResponse:
        """Raises TransientError when it is away, InvalidInput when it refuses the request."""
        ...


class Corpus(Protocol):
    """The answerer's own look at the index. Every method raises TransientError when it is away."""

    async def state(self) -> CorpusState:
        """Epoch and freshness, now."""
        ...

    async def check(self, dependencies: Mapping[uuid.UUID, str]) -> tuple[CorpusState, bool]:
        """The state, and whether every one of these steps still has this content_sha."""
        ...

    async def procedure(self, document_id: uuid.UUID) -> list[Passage]:
        """All steps of a runbook in order of their number; their score is 0."""
        ...

    async def named(self, runbook_ids: Sequence[str], titles: Sequence[str]) -> dict[str, str]:
        """The title of each runbook there is that has one of these ids or titles, by its id."""
        ...

    async def revisions(self, runbook_ids: Sequence[str]) -> dict[str, int]:
        """Revision under which each of these runbooks is searchable; unknown ones are left out."""
        ...

    async def settled(self, event_ids: Sequence[uuid.UUID]) -> set[uuid.UUID]:
        """Those of these events that reached an end: searchable, superseded or dead."""
        ...


@dataclass(frozen=True)
class Message:
    """One message of a chat."""

    role: str
    content: str


@dataclass(frozen=True)
class Completion:
    """What a model wrote. `truncated`: a limit ended it, not the model."""

    text: str
    truncated: bool = False


class Reader(Protocol):
    """Follows a completion while it is written."""

    @property
    def usable(self) -> bool:
        """What was fed so far is worth keeping: a failure now is no reason for another attempt."""
        ...

    def restart(self) -> None:
        """A new attempt begins; everything fed so far is void."""
        ...

    def feed(self, text: str) -> bool:
        """The next piece. False: enough, stop reading."""
        ...


JsonSchema = Mapping[str, Any]
"""A JSON Schema of a whole output: an object that names every property as required and admits no other."""


class LanguageModel(Protocol):
    """A chat model behind retries and the circuit breaker."""

    async def complete(
        self, messages: Sequence[Message], reader: Reader, *, seconds: float, schema: JsonSchema | None = None
    ) -> Completion:
        """Write an answer within `seconds`, whatever it takes inside.

        With a `schema` an endpoint that can enforce it does; one that cannot is asked for any JSON, and one that
        cannot do that either is left to the messages alone. So what comes is read leniently all the same.

        Raises:
            ModelFailure: there is no answer; `reason` says why.
        """
        ...


class AnswerStore(Protocol):
    """Bytes kept for a while. Failing means not finding: it never raises."""

    async def get(self, key: str) -> bytes | None: ...

    async def put(self, key: str, value: bytes, seconds: float) -> None: ...


class FlightStore(Protocol):
    """Who is answering which question, across replicas.

    Every method raises one of `cairn_shared.redis.RedisFailure` when the store is away.
    """

    async def lead(self, key: str, token: str, seconds: float) -> str:
        """Take the lease of `key` if it is free. Returns the token of whoever holds it now."""
        ...

    async def renew(self, key: str, token: str, seconds: float) -> bool:
        """Extend the lease, if it is still ours."""
        ...

    async def land(self, key: str, token: str, result: bytes | None, seconds: float) -> None:
        """Give the lease up, if it is still ours; in the same step leave `result` to the waiters for `seconds`."""
        ...

    async def look(self, key: str, token: str) -> tuple[str | None, bytes | None]:
        """Who holds the lease now, and the result that the flight of `token` left."""
        ...


class CircuitStore(Protocol):
    """The breaker's state, shared by replicas. Raises RedisFailure when the store is away."""

    async def read(self) -> tuple[int, float | None]:
        """Failures in a row, and when the circuit opened (seconds since 1970), None while it is closed."""
        ...

    async def failed(self) -> int:
        """One more failure; returns how many in a row."""
        ...

    async def opened(self, at: float) -> None:
        """The circuit opened at `at`."""
        ...

    async def closed(self) -> None:
        """The circuit is closed, no failures."""
        ...

    async def take_probe(self, token: str, seconds: float) -> bool:
        """Become the one that tries the model while the circuit is half-open."""
        ...

    async def release_probe(self, token: str) -> None:
        """Let another one try."""
        ...
