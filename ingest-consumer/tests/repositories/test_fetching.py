"""Commits that a webhook left out, from an API over real HTTP into a real index: none missing, none twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from ingest_fakes import FakeEmbedder, FakeModels
from prometheus_client import CollectorRegistry
from provider_api import Answer, Provider, serving, sha
from pydantic import SecretStr

from cairn_ingest_consumer.adapters.document_store import PostgresDocumentStore
from cairn_ingest_consumer.adapters.ledger import PostgresLedger
from cairn_ingest_consumer.adapters.spaces import PostgresSpaces
from cairn_ingest_consumer.embedders import Embedders, Endpoint
from cairn_ingest_consumer.indexing import IndexDocuments
from cairn_ingest_consumer.metrics import IngestMetrics
from cairn_ingest_consumer.model import Delivery
from cairn_ingest_consumer.repositories.asking import AskPolicy
from cairn_ingest_consumer.repositories.fetching import FetchCommits, FetchMetrics, FetchPolicy
from cairn_shared import mongo
from cairn_shared.clock import SystemClock
from cairn_shared.errors import PermanentError
from cairn_shared.events import Event, PushCut, make_event
from cairn_shared.kafka.records import Record
from cairn_shared.postgres import Pool
from cairn_shared.repositories.commits import open_commits
from cairn_shared.repositories.fetches import Fetch, FetchStore
from cairn_shared.repositories.hosts import Hosts, RepositorySettings

NOW = datetime(2026, 3, 6, 12, tzinfo=UTC)
TOKEN = SecretStr("t")
Make = Callable[..., FetchCommits]


class Clock(SystemClock):
    """Its time of day can be moved, and it does not sleep long."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.01))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def fetches(database: mongo.Database, clock: Clock) -> FetchStore:
    store = FetchStore(database, clock)
    await store.ensure_indexes()
    return store


@pytest.fixture
def published() -> list[Event]:
    return []


@pytest.fixture
def make(pool: Pool, fetches: FetchStore, clock: Clock, published: list[Event]) -> Make:
    """A handler as one replica has it, over the index in PostgreSQL."""

    def made(provider: Provider, policy: FetchPolicy = FetchPolicy(), token: SecretStr | None = TOKEN) -> FetchCommits:
        settings = RepositorySettings(github_api_url=provider.url, github_token=token)
        embedders = Embedders(PostgresSpaces(pool), [Endpoint(FakeModels(), FakeEmbedder(), FakeEmbedder())], clock)
        index = IndexDocuments(PostgresDocumentStore(pool), embedders, IngestMetrics(CollectorRegistry()), clock)

        async def publish(event: Event) -> None:
            published.append(event)

        return FetchCommits(
            index,
            fetches,
            hosts=Hosts(settings),
            open_commits=partial(open_commits, settings=settings),
            publish=publish,
            ledger=PostgresLedger(pool),
            metrics=FetchMetrics(CollectorRegistry()),
            clock=clock,
            policy=policy,
        )

    return made


def mark(
    provider: Provider, after: int, base: str | None = sha(0), offset: int = 7, listed: Sequence[str] = ()
) -> Delivery:
    """The work item for the commits up to number `after`, as the gateway makes it."""
    cut = PushCut(
        host=provider.url.removeprefix("http://"),
        name="Acme/payments",
        prefix="acme/payments",
        service="payments",
        base=base,
        after=sha(after),
        listed=list(listed),
    )
    event = make_event(
        "push.cut",
        source="github",
        source_id=cut.key(),
        subject="acme/payments@x",
        version=1,
        occurred_at=NOW,
        accepted_at=NOW,
        payload=cut,
    )
    return Delivery(Record("cairn.repo-changes.v1", 0, offset, None, event.encode(), (), None), event)


async def indexed(pool: Pool) -> list[str]:
    """The commits that can be found, each as often as it is there."""
    rows = await pool.fetch("SELECT external_id FROM documents WHERE kind = 'commit' AND NOT deleted")
    return sorted(row["external_id"].removeprefix("acme/payments@") for row in rows)


async def state(fetches: FetchStore, delivery: Delivery) -> Fetch:
    cut = delivery.event.body()
    assert isinstance(cut, PushCut)
    found = await fetches.find(f"github|{cut.key()}")
    assert found is not None
    return found


async def test_every_page_is_read_and_a_redelivery_asks_for_nothing(
    make: Make, pool: Pool, fetches: FetchStore
) -> None:
    with serving(Provider(260)) as provider:
        delivery = mark(provider, 259)
        await make(provider).handle([delivery])
        assert await indexed(pool) == sorted(sha(number) for number in range(1, 260))
        asked = len(provider.requests)
        assert asked == 3 + 259
        await make(provider).handle([delivery])
        assert len(provider.requests) == asked
    found = await state(fetches, delivery)
    assert (found.loaded, found.error, found.retry_at) == (259, None, None)
    detail = await pool.fetchval("SELECT detail FROM ingest_ledger WHERE event_id = $1", delivery.event.event_id)
    assert detail == "259 commits fetched"


async def test_what_the_webhook_listed_is_left_to_the_webhook(make: Make, pool: Pool) -> None:
    with serving(Provider(30)) as provider:
        listed = [sha(number) for number in range(1, 21)]
        await make(provider).handle([mark(provider, 29, listed=listed)])
        assert len(provider.requests) == 1 + 9
    assert await indexed(pool) == sorted(sha(number) for number in range(21, 30))


async def test_a_first_push_has_no_base_and_brings_everything_up_to_the_limit(
    make: Make, pool: Pool, fetches: FetchStore
) -> None:
    with serving(Provider(250)) as provider:
        await make(provider).handle([mark(provider, 49, base=None)])
        assert await indexed(pool) == sorted(sha(number) for number in range(50))
        long = mark(provider, 249, base=None)
        await make(provider, FetchPolicy(most=200)).handle([long])
    found = await state(fetches, long)
    assert found.ended_at is not None
    assert "only 200 were asked for (PUSH_FETCH_COMMITS)" in (found.error or "")
    assert len(await indexed(pool)) == 250  # 50 to 249 by the second, the rest by the first


async def test_a_rate_limit_ends_the_run_and_the_next_goes_on_where_it_was(
    make: Make, pool: Pool, fetches: FetchStore, clock: Clock
) -> None:
    def limited(number: int, _: str) -> Answer | None:
        if 130 <= number < 140:
            reset = int((clock.now() + timedelta(minutes=40)).timestamp())
            return 403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(reset)}, {"message": "rate limit"}
        return None

    with serving(Provider(260, trouble=limited)) as provider:
        delivery = mark(provider, 259)
        await make(provider).handle([delivery])
        found = await state(fetches, delivery)
        assert "limits our requests" in (found.error or "")
        assert found.retry_at is not None
        assert timedelta(minutes=35) < found.retry_at - clock.now() <= timedelta(minutes=40)
        so_far = len(await indexed(pool))
        assert 120 <= so_far < 135, "what was read before the limit is kept"
        assert await fetches.due(timedelta(minutes=5)) == []

        clock.ahead = timedelta(minutes=41)
        assert [one.page for one in await fetches.due(timedelta(minutes=5))] == [2]
        assert await fetches.due(timedelta(minutes=5)) == [], "asked for once, then there is patience"
        provider.requests[:] = [""] * 200
        await make(provider).handle([delivery])
        assert await indexed(pool) == sorted(sha(number) for number in range(1, 260))
        details = [one for one in provider.requests if "/commits/" in one]
        assert len(details) == 259 - so_far, "what the ledger has is not asked for again"


async def test_a_part_of_the_rate_limit_is_left_to_syncs(
    make: Make, pool: Pool, fetches: FetchStore, clock: Clock
) -> None:
    with serving(Provider(60, limit=50)) as provider:
        delivery = mark(provider, 59)
        await make(provider).handle([delivery])
        found = await state(fetches, delivery)
        assert found.error == "what is left of the rate limit is for syncs"
        assert found.retry_at is not None
        assert found.retry_at - clock.now() > timedelta(minutes=20)
        assert 40 <= len(provider.requests) < 50
        assert 0 < len(await indexed(pool)) < 59


async def test_a_short_wait_is_waited_for_in_the_run(make: Make, pool: Pool) -> None:
    def busy(number: int, _: str) -> Answer | None:
        return (429, {"retry-after": "1"}, {}) if number in {1, 5} else (502, {}, {}) if number == 9 else None

    with serving(Provider(20, trouble=busy)) as provider:
        await make(provider).handle([mark(provider, 19)])
    assert len(await indexed(pool)) == 19


async def test_when_the_time_is_over_the_others_follow(
    make: Make, pool: Pool, fetches: FetchStore, clock: Clock
) -> None:
    with serving(Provider(60)) as provider:
        first, second = mark(provider, 59), mark(provider, 30, offset=8)
        await make(provider, FetchPolicy(budget=-1.0)).handle([first, second])
        for delivery in (first, second):
            found = await state(fetches, delivery)
            assert (found.error, found.ended_at) == ("the others follow", None)
        for _ in range(40):
            if not await fetches.due(timedelta()):
                break
            await make(provider, FetchPolicy(budget=0.05, batch=5)).handle([first, second])
    assert await indexed(pool) == sorted(sha(number) for number in range(1, 60))


async def test_killed_at_any_request_it_goes_on_and_nothing_is_there_twice(
    make: Make, pool: Pool, fetches: FetchStore
) -> None:
    with serving(Provider(130)) as provider:
        delivery = mark(provider, 129)
        for kill_at in (1, 4, 30, 75, 101, 140):
            killed = asyncio.Event()
            loop = asyncio.get_running_loop()

            def trouble(
                number: int, _: str, kill_at: int = kill_at, killed: asyncio.Event = killed, loop: Any = loop
            ) -> Answer | None:
                if number >= kill_at:
                    loop.call_soon_threadsafe(killed.set)
                return None

            provider.requests.clear()
            provider.trouble = trouble
            work = asyncio.create_task(make(provider).handle([delivery]))
            ended = asyncio.create_task(killed.wait())
            await asyncio.wait({work, ended}, return_when=asyncio.FIRST_COMPLETED)
            work.cancel()
            ended.cancel()
            await asyncio.gather(work, ended, return_exceptions=True)
        provider.trouble = lambda *_: None
        await make(provider).handle([delivery])
    assert await indexed(pool) == sorted(sha(number) for number in range(1, 130))
    assert (await state(fetches, delivery)).ended_at is not None
    assert await pool.fetchval("SELECT count(*) FROM chunks") == await pool.fetchval(
        "SELECT count(DISTINCT (document_id, text)) FROM chunks"
    )


@pytest.mark.parametrize(
    ("answer", "says"),
    [((404, {}, {}), "no such repository"), ((401, {}, {}), "refuses the token"), ((403, {}, {}), "refuses the token")],
)
async def test_a_refusal_is_tried_again_for_a_while_and_then_given_up(
    make: Make, fetches: FetchStore, answer: Answer, says: str
) -> None:
    with serving(Provider(5, trouble=lambda *_: answer)) as provider:
        delivery, policy = mark(provider, 4), FetchPolicy(give_up=3)
        for _ in range(2):
            await make(provider, policy).handle([delivery])
        found = await state(fetches, delivery)
        assert says in (found.error or "")
        assert (found.failures, found.ended_at) == (2, None)
        assert found.retry_at is not None
        await make(provider, policy).handle([delivery])
        found = await state(fetches, delivery)
    assert (found.retry_at, "`cairn backfill` loads the others" in (found.error or "")) == (None, True)


async def test_a_host_that_is_away_is_never_given_up(make: Make, fetches: FetchStore) -> None:
    with serving(Provider(5, trouble=lambda *_: (503, {}, {}))) as provider:
        delivery = mark(provider, 4)
        for _ in range(3):
            await make(provider, FetchPolicy(give_up=1, asking=AskPolicy(attempts=1))).handle([delivery])
        found = await state(fetches, delivery)
    assert (found.failures, found.ended_at) == (3, None)


async def test_only_configured_hosts_are_asked_and_only_with_a_token(make: Make, fetches: FetchStore) -> None:
    with serving(Provider(5)) as provider, serving(Provider(5)) as other:
        elsewhere = mark(other, 4)
        await make(provider).handle([elsewhere])
        assert "is of the host" in ((await state(fetches, elsewhere)).error or "")
        without = mark(provider, 4)
        await make(provider, token=None).handle([without])
        assert (await state(fetches, without)).error == "GITHUB_TOKEN is not set"
        assert (provider.requests, other.requests) == ([], [])


async def test_a_commit_that_cannot_be_indexed_takes_the_ordinary_way(
    make: Make, pool: Pool, published: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = IndexDocuments.handle

    async def handle(self: IndexDocuments, deliveries: Any) -> None:
        if any(one.event.subject.endswith(sha(3)) for one in deliveries):
            raise PermanentError("no", stage="embed")
        await original(self, deliveries)

    monkeypatch.setattr(IndexDocuments, "handle", handle)
    with serving(Provider(6)) as provider:
        await make(provider).handle([mark(provider, 5)])
    assert await indexed(pool) == sorted(sha(number) for number in (1, 2, 4, 5))
    assert [event.subject for event in published] == [f"acme/payments@{sha(3)}"]
