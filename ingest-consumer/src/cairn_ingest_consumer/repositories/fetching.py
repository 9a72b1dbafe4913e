"""What is done with `push.cut`: the commits that the sender did not list are asked for and indexed.

They become the very documents that the webhook would have made of them. What the ledger has is not asked for again, and
the place in the list is kept after every page, so that a run that was killed, or that a rate limit ended, goes on where
it was. As with syncs, a host that is away is written down with the time for the next try, and the mark is done.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from prometheus_client import CollectorRegistry, Counter

from cairn_ingest_consumer.isolation import Isolation
from cairn_ingest_consumer.model import Delivery
from cairn_ingest_consumer.ports import EventHandler
from cairn_ingest_consumer.repositories.asking import AskPolicy, HostFailed, ask, retry_in
from cairn_shared.clock import Clock
from cairn_shared.documents.commits import CommitFacts, Home, commit_event
from cairn_shared.errors import InvalidInput, PermanentError, TransientError
from cairn_shared.events import Event, PushCut
from cairn_shared.kafka.records import Record
from cairn_shared.logging import get_logger
from cairn_shared.repositories.commits import PAGE, CommitReader
from cairn_shared.repositories.fetches import Fetch, FetchStore
from cairn_shared.repositories.hosts import Access, Hosts

log = get_logger(__name__)

T = TypeVar("T")
OpenCommits = Callable[[Access], AbstractAsyncContextManager[CommitReader]]
Publish = Callable[[Event], Awaitable[None]]
"""Sends an event the ordinary way, through Kafka."""


@dataclass(frozen=True)
class FetchPolicy:
    """`budget`: seconds for the fetches of one batch, shared, before they leave the rest to the next mark.

    Of one push at most `most` commits are asked for; `batch` of them at once, since a commit's paths cost a request
    each. A host that refuses for good is given up after `give_up` tries in a row; one that is away never.
    """

    budget: float = 30.0
    most: int = 10_000
    batch: int = 20
    concurrency: int = 5
    give_up: int = 24
    asking: AskPolicy = field(default_factory=AskPolicy)


class FetchLedger(Protocol):
    """The ends of events."""

    async def done(self, deliveries: Sequence[Delivery], detail: str) -> None: ...

    async def ended(self, event_ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
        """Those that are searchable, superseded or dead."""
        ...


class FetchMetrics:
    """The metrics of fetches."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.fetches = Counter(
            "cairn_push_fetches_total",
            "Fetches of commits that a webhook left out, by how they ended: complete, later, failed, given_up.",
            ("outcome",),
            registry=registry,
        )
        self.commits = Counter(
            "cairn_push_fetched_commits_total", "Commits indexed that no webhook brought.", registry=registry
        )


class FetchCommits:
    """An `EventHandler` for `push.cut`."""

    def __init__(
        self,
        index: EventHandler,
        fetches: FetchStore,
        *,
        hosts: Hosts,
        open_commits: OpenCommits,
        publish: Publish,
        ledger: FetchLedger,
        metrics: FetchMetrics,
        clock: Clock,
        policy: FetchPolicy = FetchPolicy(),
    ) -> None:
        self._index = index
        self._fetches = fetches
        self._hosts = hosts
        self._open_commits = open_commits
        self._publish = publish
        self._ledger = ledger
        self._metrics = metrics
        self._clock = clock
        self._policy = policy
        self._isolation = Isolation()

    async def handle(self, deliveries: Sequence[Delivery]) -> None:
        """As `ports.EventHandler.handle`."""
        deadline = self._clock.monotonic() + self._policy.budget
        for delivery in deliveries:
            cut, source = delivery.event.body(), delivery.event.source
            if not isinstance(cut, PushCut):
                raise PermanentError(f"{delivery.event.type} is no cut push", stage="validate")
            key = f"{source}|{cut.key()}"
            fetch = await self._fetches.find(key) or Fetch(source=source, cut=cut.model_dump())
            if fetch.ended_at is None:
                await self._go_on(_Run(cut, Home(source, cut.prefix, cut.service), fetch, delivery.record, deadline))
                await self._fetches.save(key, fetch)
            detail = f"{fetch.loaded} commits fetched{f'; {fetch.error}' if fetch.error else ''}"
            log.info("commits that a push did not list", repository=cut.prefix, detail=detail, ended=fetch.ended_at)
            await self._ledger.done([delivery], detail)

    async def _go_on(self, run: _Run) -> None:
        """Fetch until it is complete, or something ends the run."""
        if self._clock.monotonic() > run.deadline:
            self._later(run.fetch)
            return
        key = f"{run.home.source}|{run.cut.key()}"
        try:
            access = self._hosts.api(run.cut.host, run.cut.name)
            async with self._open_commits(access) as reader:
                while await self._page(run, reader):
                    await self._fetches.save(key, run.fetch)
        except HostFailed as failure:
            self._failed(run.fetch, failure)
        except InvalidInput as exc:
            self._failed(run.fetch, HostFailed(exc))

    async def _page(self, run: _Run, reader: CommitReader) -> bool:
        """The next page; whether another is to follow in this run."""
        fetch, cut = run.fetch, run.cut
        page = await self._ask(lambda: reader.page(cut.base, cut.after, fetch.page))
        whole = await self._load(page.commits, reader, run)
        fetch.failures, fetch.error = 0, None
        if not whole:
            self._later(fetch)
            return False
        fetch.page += 1
        if not page.last and (fetch.page - 1) * PAGE < self._policy.most:
            if self._clock.monotonic() <= run.deadline:
                return True
            self._later(fetch)
            return False
        if not page.last:
            fetch.error = f"only {self._policy.most} were asked for (PUSH_FETCH_COMMITS); `cairn backfill` loads more"
        fetch.retry_at, fetch.ended_at = None, self._clock.now()
        self._metrics.fetches.labels("complete").inc()
        return False

    async def _load(self, commits: Sequence[CommitFacts], reader: CommitReader, run: _Run) -> bool:
        """Index what the webhook did not bring and the ledger does not have; whether the time sufficed."""
        now, listed = self._clock.now(), frozenset(run.cut.listed)
        commits = [commit for commit in commits if commit.sha not in listed]
        ids = {commit.sha: commit_event(commit, run.home, now).event_id for commit in commits}
        known = await self._ledger.ended(ids.values())
        missing = [commit for commit in commits if ids[commit.sha] not in known]
        while missing:
            batch, missing = missing[: self._policy.batch], missing[self._policy.batch :]
            complete, failure = await self._complete(batch, reader)
            if complete:
                await self._write(complete, run)
            if failure is not None:
                raise failure
            if missing and self._clock.monotonic() > run.deadline:
                return False  # after at least one batch: a run that is short still gets on
        return True

    async def _complete(
        self, commits: Sequence[CommitFacts], reader: CommitReader
    ) -> tuple[list[CommitFacts], BaseException | None]:
        """The commits with their paths, as far as the host tells them, and why not all of them."""
        limit = asyncio.Semaphore(self._policy.concurrency)

        async def one(commit: CommitFacts) -> CommitFacts:
            async with limit:
                return await self._ask(lambda: reader.complete(commit))

        results = await asyncio.gather(*(one(commit) for commit in commits), return_exceptions=True)
        failures = [result for result in results if isinstance(result, BaseException)]
        complete = [result for result in results if not isinstance(result, BaseException)]
        return complete, failures[0] if failures else None

    async def _write(self, commits: Sequence[CommitFacts], run: _Run) -> None:
        now = self._clock.now()
        events = [commit_event(commit, run.home, now) for commit in commits]
        deliveries = [Delivery(run.record(number), event) for number, event in enumerate(events)]
        for failed in await self._isolation.run(self._index.handle, deliveries):
            # The ordinary way ends in the dead letters, where an operator finds it.
            await self._publish(failed.delivery.event)
        run.fetch.loaded += len(commits)
        self._metrics.commits.inc(len(commits))

    def _later(self, fetch: Fetch) -> None:
        fetch.retry_at, fetch.error = self._clock.now(), "the others follow"
        self._metrics.fetches.labels("later").inc()

    def _failed(self, fetch: Fetch, failure: HostFailed) -> None:
        now = self._clock.now()
        fetch.failures += 1
        fetch.error = failure.error.detail
        if isinstance(failure.error, TransientError) or fetch.failures < self._policy.give_up:
            fetch.retry_at = now + retry_in(failure, fetch.failures)
            self._metrics.fetches.labels("failed").inc()
            return
        fetch.error += "; given up, `cairn backfill` loads the others"
        fetch.retry_at, fetch.ended_at = None, now
        self._metrics.fetches.labels("given_up").inc()

    async def _ask(self, question: Callable[[], Awaitable[T]]) -> T:
        return await ask(question, self._clock, self._policy.asking)


@dataclass
class _Run:
    """One go at one push. `mark` is the record that asked for it."""

    cut: PushCut
    home: Home
    fetch: Fetch
    mark: Record
    deadline: float

    def record(self, number: int) -> Record:
        """What a commit is noted under in the ledger: without a record of its own, an offset that is none."""
        return Record(self.mark.topic, self.mark.partition, -1 - number, None, None)
