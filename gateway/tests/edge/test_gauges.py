"""What the status page reads out of the metrics of others."""

from __future__ import annotations

import httpx

from cairn_gateway.adapters.gauges import Gauges

FIRST = """\
# TYPE cairn_ingest_lag_records gauge
cairn_ingest_lag_records{topic="events",partition="1"} 7.0
cairn_ingest_lag_records{topic="events",partition="0"} 0.0
# TYPE cairn_ingest_lag_seconds gauge
cairn_ingest_lag_seconds{topic="events",partition="1"} 2.5
# TYPE cairn_ingest_paused gauge
cairn_ingest_paused{topic="events",partition="1"} 1.0
"""
ANSWERER = """\
# TYPE cairn_cache_events_total counter
cairn_cache_events_total{result="hit"} 3.0
cairn_cache_events_total{result="miss"} 1.0
cairn_cache_events_total{result="stored"} 9.0
# TYPE cairn_circuit_state gauge
cairn_circuit_state 2.0
# TYPE cairn_requests_total counter
cairn_requests_total{outcome="full"} 4.0
cairn_requests_total{outcome="refused"} 0.0
"""


def client(text: str | None) -> httpx.AsyncClient:
    def answer(_: httpx.Request) -> httpx.Response:
        if text is None:
            raise httpx.ConnectError("away")
        return httpx.Response(200, text=text)

    return httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://x")


async def test_partitions_of_all_consumers_are_put_together() -> None:
    second = 'cairn_ingest_lag_records{topic="changes",partition="0"} 1.0\n'
    found = await Gauges(client(None), [client(FIRST), client(None), client(second)]).partitions()
    assert found is not None
    assert [(one.topic, one.partition, one.lag, one.seconds, one.paused) for one in found] == [
        ("changes", 0, 1, 0.0, False),
        ("events", 0, 0, 0.0, False),
        ("events", 1, 7, 2.5, True),
    ]


async def test_an_answerer_tells_its_circuit_its_cache_and_its_modes() -> None:
    found = await Gauges(client(ANSWERER), []).answers()
    assert found is not None
    assert (found.circuit, found.cache_hit_rate, found.modes) == ("open", 0.75, {"full": 4})


async def test_who_is_away_says_nothing() -> None:
    gauges = Gauges(client(None), [client(None)])
    assert await gauges.partitions() is None
    assert await gauges.answers() is None
