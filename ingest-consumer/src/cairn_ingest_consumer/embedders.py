"""Which models there are, who embeds for them, and which of them a batch needs.

The model that searches use must embed every change before it is written. Another one, whose space is being built or is
kept for the way back, embeds too if it can: what it does not, the rebuilding makes up for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cairn_ingest_consumer.model import Space
from cairn_ingest_consumer.ports import Embedder, EmbeddingModel, ModelSource, Spaces
from cairn_shared.clock import Clock
from cairn_shared.errors import TransientError
from cairn_shared.logging import get_logger

log = get_logger(__name__)

REST = 5.0
"""Seconds for which an embedder that failed is not asked, while there is one that has the model in use."""


@dataclass(frozen=True)
class Endpoint:
    """One embedder: `embedder` refuses a text over the model's limit, `cutting` embeds its beginning."""

    models: ModelSource
    embedder: Embedder
    cutting: Embedder


@dataclass(frozen=True)
class Served:
    """A model with its embedder and its space."""

    endpoint: Endpoint
    model: EmbeddingModel
    space: Space


@dataclass(frozen=True)
class Plan:
    """`main` cuts the chunks and embeds each of them; `others` embed what they can.

    `main` is the model that searches use, `active`; where no embedder has that any more, the one that will follow it.
    """

    active: str | None
    main: Served
    others: tuple[Served, ...] = ()


class Embedders:
    """The embedders of this process, in the order of their settings: of several new models, the last one wins."""

    def __init__(self, spaces: Spaces, endpoints: Sequence[Endpoint], clock: Clock) -> None:
        self._spaces = spaces
        self._endpoints = endpoints
        self._clock = clock
        self._rest_until: dict[int, float] = {}
        self._missed: str | None = None

    async def plan(self) -> Plan:
        """Who embeds now. A model without a space gets one.

        Raises:
            TransientError: no embedder answers; or one that may have the model in use does not.
        """
        spaces = {space.fingerprint: space for space in await self._spaces.all()}
        active = next((space.fingerprint for space in spaces.values() if space.state == "active"), None)
        found, failures = await self._ask(resting=False)
        if active not in found:
            found, failures = await self._ask(resting=True)
            if failures and (active is not None or not found):
                raise failures[0]
        if any(fingerprint not in spaces for fingerprint in found):
            for fingerprint, (_, model) in found.items():
                if fingerprint not in spaces:
                    await self._spaces.open(model)
            spaces = {space.fingerprint: space for space in await self._spaces.all()}
            active = next((space.fingerprint for space in spaces.values() if space.state == "active"), None)
        served = {one: Served(endpoint, model, spaces[one]) for one, (endpoint, model) in found.items()}
        main = active if active in served else list(served)[-1]
        self._tell(active, main)
        others = tuple(one for fingerprint, one in served.items() if fingerprint != main and one.space.table)
        return Plan(active, served[main], others)

    async def refresh(self) -> None:
        """Notice embedders that were started again with another model."""
        for endpoint in self._endpoints:
            await endpoint.models.refresh()

    def failed(self, served: Served) -> None:
        """Leave it alone for a moment, then ask again what it has."""
        served.endpoint.models.forget()
        self._rest_until[self._endpoints.index(served.endpoint)] = self._clock.monotonic() + REST

    async def _ask(self, *, resting: bool) -> tuple[dict[str, tuple[Endpoint, EmbeddingModel]], list[TransientError]]:
        found: dict[str, tuple[Endpoint, EmbeddingModel]] = {}
        failures: list[TransientError] = []
        for number, endpoint in enumerate(self._endpoints):
            if not resting and self._clock.monotonic() < self._rest_until.get(number, 0.0):
                continue
            try:
                model = await endpoint.models.current()
            except TransientError as exc:
                failures.append(exc)
                self._rest_until[number] = self._clock.monotonic() + REST
            else:
                found.setdefault(model.fingerprint, (endpoint, model))
        return found, failures

    def _tell(self, active: str | None, main: str) -> None:
        """Once, that the model in use is gone."""
        missed = active if active != main else None
        if missed is not None and missed != self._missed:
            log.error("no embedder has the model in use: until another is complete, words are searched only",
                      index=missed, embedder=main)  # fmt: skip
        self._missed = missed
