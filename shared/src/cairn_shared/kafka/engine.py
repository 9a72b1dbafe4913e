"""The consumer engine: a thread that owns the consumer, and workers on the event loop."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from cairn_shared.clock import Clock, SystemClock
from cairn_shared.kafka.driver import Driver
from cairn_shared.kafka.mail import Mail, Stop
from cairn_shared.kafka.observer import EngineObserver
from cairn_shared.kafka.ownership import PartitionStatus
from cairn_shared.kafka.policy import ConsumerPolicy
from cairn_shared.kafka.ports import Alarm, BatchHandler, Crew, GroupConsumer, Halts
from cairn_shared.kafka.records import Partition, Record
from cairn_shared.kafka.workers import Workers
from cairn_shared.logging import get_logger

log = get_logger(__name__)

STUCK_EXIT_CODE = 70


class ConsumerEngine:
    """Reads topics as a member of a group and hands batches to a handler.

    `make_consumer` is called on the owning thread. `run` ends after `stop`, or raises what ended it.
    """

    def __init__(
        self,
        make_consumer: Callable[[], GroupConsumer],
        topics: Sequence[str],
        handler: BatchHandler,
        *,
        policy: ConsumerPolicy,
        observer: EngineObserver | None = None,
        clock: Clock | None = None,
        alarm: Alarm | None = None,
        halts: Halts | None = None,
        on_stuck: Callable[[list[PartitionStatus]], None] | None = None,
    ) -> None:
        self._make_consumer = make_consumer
        self._topics = topics
        self._handler = handler
        self._policy = policy
        self._observer = observer or EngineObserver()
        self._clock = clock or SystemClock()
        self._alarm = alarm
        self._halts = halts
        self._on_stuck = on_stuck or exit_with_stacks
        self._mailbox = QueueMailbox()
        self._last_step = 0.0
        self._owned = 0

    async def run(self) -> None:
        """Consume until `stop`.

        Raises:
            EngineFailed: the consumer or the handler is broken; end the process and let it be started again.
        """
        loop = asyncio.get_running_loop()
        workers = Workers(
            self._handler,
            policy=self._policy,
            clock=self._clock,
            report=self._mailbox.put,
            observer=self._observer,
            halts=self._halts,
        )
        ended: asyncio.Future[None] = loop.create_future()
        thread = threading.Thread(
            target=self._own, args=(_OnLoop(loop, workers), loop, ended), name="kafka-consumer", daemon=True
        )
        thread.start()
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            self.stop()
            await ended
            raise
        finally:
            await workers.close()
            await asyncio.to_thread(thread.join, 5)

    def stop(self) -> None:
        """Ask for the end: drain, commit, leave. `run` returns when it is done."""
        self._mailbox.put(Stop())

    def seconds_since_step(self) -> float:
        """How long ago the owning thread was last seen at work; large when it never was."""
        return time.monotonic() - self._last_step

    def _own(self, crew: Crew, loop: asyncio.AbstractEventLoop, ended: asyncio.Future[None]) -> None:
        error: BaseException | None = None
        try:
            self._drive(crew)
        except BaseException as exc:  # noqa: BLE001 - handed over to whoever awaits `run`
            error = exc
        finally:
            if self._alarm:
                self._alarm.cancel()
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, ended, error)

    def _drive(self, crew: Crew) -> None:
        driver = Driver(
            self._make_consumer(),
            self._topics,
            crew,
            self._mailbox,
            policy=self._policy,
            monotonic=time.monotonic,
            observer=self._observer,
            on_stuck=self._on_stuck,
        )
        patience = self._policy.stuck_after + self._policy.assign_timeout
        try:
            driver.start()
            while not driver.stopping:
                self._last_step = time.monotonic()
                if self._alarm:
                    self._alarm.postpone(patience)
                driver.step()
        finally:
            driver.shut_down()


class QueueMailbox:
    """A mailbox over a thread-safe queue."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Mail] = queue.SimpleQueue()

    def put(self, mail: Mail) -> None:
        """Append; never blocks."""
        self._queue.put(mail)

    def get(self, timeout: float) -> Mail | None:
        """The oldest mail, or None after `timeout` seconds."""
        try:
            return self._queue.get(timeout=timeout) if timeout > 0 else self._queue.get_nowait()
        except queue.Empty:
            return None


class FaulthandlerAlarm:
    """Dumps every thread's stack and ends the process, from C, even when the interpreter is held up."""

    def postpone(self, seconds: float) -> None:
        """Not before `seconds` from now."""
        faulthandler.dump_traceback_later(seconds, exit=True)

    def cancel(self) -> None:
        """Not at all."""
        faulthandler.cancel_dump_traceback_later()


def exit_with_stacks(stuck: list[PartitionStatus]) -> None:
    """Say what is stuck, dump every thread's stack, end the process: the supervisor starts it again."""
    log.critical(
        "no progress: ending the process", stuck=[f"{s.partition} at {s.frontier}, lag {s.lag}" for s in stuck]
    )
    sys.stdout.flush()
    faulthandler.dump_traceback(all_threads=True)
    sys.stderr.flush()
    os._exit(STUCK_EXIT_CODE)


class _OnLoop:
    """A crew for the owning thread: passes every call to the workers' event loop, in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, workers: Workers) -> None:
        self._loop = loop
        self._workers = workers

    def begin(self, partition: Partition, epoch: int) -> None:
        self._call(self._workers.begin, partition, epoch)

    def deliver(self, partition: Partition, epoch: int, records: Sequence[Record]) -> None:
        self._call(self._workers.deliver, partition, epoch, records)

    def drain(self, partition: Partition, epoch: int) -> None:
        self._call(self._workers.drain, partition, epoch)

    def abandon(self, partition: Partition, epoch: int) -> None:
        self._call(self._workers.abandon, partition, epoch)

    def _call(self, method: Callable[..., None], *args: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(method, *args)


def _settle(ended: asyncio.Future[None], error: BaseException | None) -> None:
    if ended.done():
        return
    if error is not None:
        ended.set_exception(error)
    else:
        ended.set_result(None)
