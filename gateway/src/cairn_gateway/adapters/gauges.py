"""What the other processes say of themselves in their metrics, for the status page: lag, circuit, answer cache."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import httpx
from prometheus_client.parser import text_string_to_metric_families

from cairn_gateway.schemas.operations import AnswerStatus, PartitionStatus

TIMEOUT = 2.0
_CIRCUIT = {0.0: "closed", 1.0: "half-open", 2.0: "open"}
Samples = Mapping[str, Sequence[tuple[Mapping[str, str], float]]]


class Gauges:
    """The pages `/metrics` of the answerer and the consumers; one that is away says nothing."""

    def __init__(self, answerer: httpx.AsyncClient, consumers: Sequence[httpx.AsyncClient]) -> None:
        self._answerer = answerer
        self._consumers = consumers

    async def partitions(self) -> list[PartitionStatus] | None:
        """Those that consumers have, by topic and number; None where no consumer can be asked."""
        pages = await asyncio.gather(*(_samples(client) for client in self._consumers))
        if not any(pages):
            return None
        found: dict[tuple[str, int], PartitionStatus] = {}
        for page in pages:
            for place, lag in _places(page, "cairn_ingest_lag_records"):
                found[place] = PartitionStatus(topic=place[0], partition=place[1], lag=int(lag))
        for page in pages:
            for name, member in (("cairn_ingest_lag_seconds", "seconds"), ("cairn_ingest_paused", "paused")):
                for place, value in _places(page, name):
                    if place in found:
                        found[place] = found[place].model_copy(
                            update={member: bool(value) if member == "paused" else round(value, 3)}
                        )
        return [found[place] for place in sorted(found)]

    async def answers(self) -> AnswerStatus | None:
        """The state of an answerer since it began; None where it cannot be asked."""
        page = await _samples(self._answerer)
        if not page:
            return None
        cache = {labels["result"]: value for labels, value in page.get("cairn_cache_events_total", ())}
        hits, asked = cache.get("hit", 0.0), cache.get("hit", 0.0) + cache.get("miss", 0.0) + cache.get("stale", 0.0)
        ((_, circuit), *_) = page.get("cairn_circuit_state", [({}, -1.0)])
        return AnswerStatus(
            circuit=_CIRCUIT.get(circuit),
            cache_hit_rate=round(hits / asked, 4) if asked else None,
            modes={labels["outcome"]: int(value) for labels, value in page.get("cairn_requests_total", ()) if value},
        )


async def _samples(client: httpx.AsyncClient) -> Samples:
    try:
        answer = await client.get("/metrics", timeout=TIMEOUT)
    except httpx.HTTPError:
        return {}
    found: dict[str, list[tuple[Mapping[str, str], float]]] = defaultdict(list)
    if answer.status_code == 200:
        for family in text_string_to_metric_families(answer.text):
            for sample in family.samples:
                found[sample.name].append((sample.labels, sample.value))
    return found


def _places(page: Samples, name: str) -> Iterator[tuple[tuple[str, int], float]]:
    for labels, value in page.get(name, ()):
        yield (labels["topic"], int(labels["partition"])), value
