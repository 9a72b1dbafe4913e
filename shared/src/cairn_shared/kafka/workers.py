"""The event loop's side: one task per owned partition, which makes batches and hands them to the handler."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from cairn_shared.clock import Clock
from cairn_shared.errors import TransientError
from cairn_shared.kafka.errors import ConsumptionHalted
from cairn_shared.kafka.mail import Alive, Broke, Drained, Finished, Held, Mail
from cairn_shared.kafka.observer import EngineObserver
from cairn_shared.kafka.policy import ConsumerPolicy
from cairn_shared.kafka.ports import BatchHandler, Halts
from cairn_shared.kafka.progress import report_to
from cairn_shared.kafka.records import Partition, Record
from cairn_shared.logging import get_logger

log = get_logger(__name__)

ALIVE_INTERVAL = 10.0
HALT_INTERVAL = 2.0
"""Seconds between looks whether a halted partition was released."""


class Worker:
    """One partition for one epoch. Batches one after another, so the partition's order is kept."""

    def __init__(
        self,
        partition: Partition,
        epoch: int,
        handler: BatchHandler,
        *,
        policy: ConsumerPolicy,
        clock: Clock,
        report: Callable[[Mail], None],
        observer: EngineObserver,
        halts: Halts | None = None,
    ) -> None:
        self._halts = halts
        self._partition = partition
        self._epoch = epoch
        self._handler = handler
        self._policy = policy
        self._clock = clock
        self._report = report
        self._observer = observer
        self._waiting: deque[Record] = deque()
        self._news = asyncio.Event()
        self._draining = asyncio.Event()

    def add(self, records: Sequence[Record]) -> None:
        """Queue records behind those that wait."""
        self._waiting.extend(records)
        self._news.set()

    def drain(self) -> None:
        """Finish the batch in hand and end; what was not begun stays undone."""
        self._draining.set()
        self._news.set()

    async def run(self) -> None:
        """Work until drained or cancelled."""
        report_to(lambda: self._report(Alive(self._partition, self._epoch)))
        try:
            while batch := await self._next_batch():
                if not await self._complete(batch):
                    break
                self._report(Finished(self._partition, self._epoch, tuple(r.offset for r in batch)))
        except asyncio.CancelledError:
            raise
        except BaseException as exc:  # noqa: BLE001 - whatever it is, the engine must know and end
            self._report(Broke(self._partition, exc))
        finally:
            self._report(Drained(self._partition, self._epoch))

    async def _next_batch(self) -> list[Record]:
        """The next records: full, or `batch_wait` after the first came; none when draining."""
        while not self._waiting and not self._draining.is_set():
            self._news.clear()
            await self._news.wait()
        if not self._draining.is_set() and len(self._waiting) < self._policy.batch_records:
            try:
                async with asyncio.timeout(self._policy.batch_wait):
                    while len(self._waiting) < self._policy.batch_records and not self._draining.is_set():
                        self._news.clear()
                        await self._news.wait()
            except TimeoutError:
                pass
        if self._draining.is_set():
            return []
        return [self._waiting.popleft() for _ in range(min(len(self._waiting), self._policy.batch_records))]

    async def _complete(self, batch: list[Record]) -> bool:
        """Try until it is done; False when draining began while nothing worked."""
        attempt = 0
        while True:
            started = self._clock.monotonic()
            try:
                await self._handler.handle(batch)
            except ConsumptionHalted as exc:
                log.critical("consumption halted", partition=str(self._partition), reason=exc.detail)
                self._observer.halted(self._partition, exc)
                if not await self._wait_for_release(exc.detail):
                    return False
                log.warning("consumption goes on", partition=str(self._partition))
                self._observer.resumed(self._partition)
                self._report(Held(self._partition, self._epoch, held=False))
            except TransientError as exc:
                attempt += 1
                delay = max(self._policy.backoff.delay(attempt), min(exc.retry_after or 0.0, 300.0))
                log.warning(
                    "batch will be tried again",
                    partition=str(self._partition),
                    offset=batch[0].offset,
                    attempt=attempt,
                    retry_in=round(delay, 2),
                    error=exc.detail,
                )
                self._observer.retrying(self._partition, attempt, delay, exc)
                if not await self._back_off(delay):
                    return False
                continue
            self._observer.batch(self._partition, len(batch), self._clock.monotonic() - started)
            if attempt:
                self._report(Held(self._partition, self._epoch, held=False))
            return True

    async def _back_off(self, delay: float) -> bool:
        """Wait with the partition paused; False when draining began."""
        self._report(Held(self._partition, self._epoch, held=True))
        self._report(Alive(self._partition, self._epoch))
        while delay > 0 and not self._draining.is_set():
            nap = min(delay, ALIVE_INTERVAL)
            delay -= nap
            await self._nap(nap)
            self._report(Alive(self._partition, self._epoch))
        return not self._draining.is_set()

    async def _wait_for_release(self, reason: str) -> bool:
        """Wait with the partition paused until somebody releases it; False when draining began."""
        self._report(Held(self._partition, self._epoch, held=True))
        try:
            while not self._draining.is_set():
                self._report(Alive(self._partition, self._epoch))
                if self._halts is not None and await self._halts.released(self._partition, reason):
                    return True
                await self._nap(HALT_INTERVAL if self._halts is not None else ALIVE_INTERVAL)
            return False
        finally:
            if self._halts is not None:
                await self._halts.over(self._partition)

    async def _nap(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._draining.wait()
        except TimeoutError:
            pass


class Workers:
    """The crew: starts, feeds, drains and cancels the workers. Every method runs on the event loop."""

    def __init__(
        self,
        handler: BatchHandler,
        *,
        policy: ConsumerPolicy,
        clock: Clock,
        report: Callable[[Mail], None],
        observer: EngineObserver,
        halts: Halts | None = None,
    ) -> None:
        self._handler = handler
        self._halts = halts
        self._policy = policy
        self._clock = clock
        self._report = report
        self._observer = observer
        self._workers: dict[tuple[Partition, int], tuple[Worker, asyncio.Task[None]]] = {}

    def begin(self, partition: Partition, epoch: int) -> None:
        """Start the worker of a partition's new epoch."""
        worker = Worker(
            partition,
            epoch,
            self._handler,
            policy=self._policy,
            clock=self._clock,
            report=self._report,
            observer=self._observer,
            halts=self._halts,
        )
        task = asyncio.get_running_loop().create_task(worker.run(), name=f"{partition} epoch {epoch}")
        self._workers[partition, epoch] = (worker, task)
        task.add_done_callback(lambda _: self._workers.pop((partition, epoch), None))

    def deliver(self, partition: Partition, epoch: int, records: Sequence[Record]) -> None:
        """Give records to their worker; without one the epoch is over and nobody wants them."""
        if entry := self._workers.get((partition, epoch)):
            entry[0].add(records)

    def drain(self, partition: Partition, epoch: int) -> None:
        """Ask a worker to finish; without one it has finished."""
        if entry := self._workers.get((partition, epoch)):
            entry[0].drain()
        else:
            self._report(Drained(partition, epoch))

    def abandon(self, partition: Partition, epoch: int) -> None:
        """Cancel a worker."""
        if entry := self._workers.get((partition, epoch)):
            entry[1].cancel()

    async def close(self) -> None:
        """Cancel all and wait until every task has ended."""
        tasks = [task for _, task in self._workers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
