"""The ingest consumers' own pages: dry runs, halted partitions and their release. Any replica answers for the group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import httpx
from pydantic import BaseModel

from cairn_shared.api.consumer import DryRunAnswer, DryRunQuery, Halt, HaltsAnswer, ReleaseAnswer, ReleaseBody
from cairn_shared.errors import TransientError, Unavailable
from cairn_shared.http import call

NAME = "ingest-consumer"
DRY_RUN_TIMEOUT = 60.0
TIMEOUT = 3.0

ModelT = TypeVar("ModelT", bound=BaseModel)


class HttpConsumers:
    """The consumers' client: the first that answers is believed."""

    def __init__(self, clients: Sequence[httpx.AsyncClient]) -> None:
        self._clients = clients

    async def dry_run(self, query: DryRunQuery) -> DryRunAnswer:
        """Raises Unavailable where no consumer answers; InvalidInput where it refuses."""
        return await self._ask("POST", "/dry-run", DryRunAnswer, query, DRY_RUN_TIMEOUT)

    async def halts(self) -> list[Halt]:
        """Partitions that are halted. Raises Unavailable where no consumer answers."""
        return (await self._ask("GET", "/halts", HaltsAnswer, None, TIMEOUT)).halts

    async def release(self, body: ReleaseBody) -> bool:
        """Whether there was something to release. Raises Unavailable where no consumer answers."""
        return (await self._ask("POST", "/halts/release", ReleaseAnswer, body, TIMEOUT)).released

    async def _ask(
        self, method: str, path: str, answer: type[ModelT], body: BaseModel | None, timeout: float
    ) -> ModelT:
        failure: TransientError = Unavailable(NAME, "no consumer is known: set INGEST_CONSUMER_URLS")
        for client in self._clients:
            try:
                return await call(client, NAME, method, path, answer, body=body, timeout=timeout)
            except TransientError as exc:
                failure = exc
        raise failure
