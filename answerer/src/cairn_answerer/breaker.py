"""The circuit around the model: aiobreaker inside, its state shared by replicas, exactly one probe.

aiobreaker 1.2.0 lets every waiting caller through when half-open and knows no shared asynchronous storage. So this
module decides who may call, brings the shared state in before a call and takes its changes out after it, and leaves
to the library what it does well: counting failures in a row and moving between closed, open and half-open.
The rest of Cairn sees `Circuit` only.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Literal, TypeVar

import aiobreaker
from aiobreaker.state import CircuitBreakerState
from aiobreaker.storage.memory import CircuitMemoryStorage

from cairn_answerer.errors import CircuitOpen, RetryableFailure
from cairn_answerer.ports import CircuitStore
from cairn_shared.clock import Clock
from cairn_shared.logging import get_logger
from cairn_shared.redis import RedisFailure

log = get_logger(__name__)
T = TypeVar("T")
Change = Literal["failed", "opened", "closed"]


class State(IntEnum):
    """The value of `cairn_circuit_state`."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


@dataclass(frozen=True)
class Policy:
    """When the circuit opens, for how long, and how long a probe may take before another replica tries."""

    failures: int = 5
    open_seconds: float = 30.0
    probe_seconds: float = 20.0


class Circuit:
    """Runs calls while the model is believed to work. Only `RetryableFailure` counts against it."""

    def __init__(
        self,
        store: CircuitStore,
        clock: Clock,
        policy: Policy,
        on_change: Callable[[State], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._policy = policy
        self._on_change = on_change
        self._memory = _Memory(clock)
        self._breaker = aiobreaker.CircuitBreaker(
            fail_max=policy.failures,
            timeout_duration=timedelta(seconds=policy.open_seconds),
            exclude=[lambda error: not isinstance(error, RetryableFailure)],
            state_storage=self._memory,
        )
        self._probing = False
        self._announced = State.CLOSED

    @property
    def state(self) -> State:
        """As this process knows it."""
        return _STATES[self._memory.state]

    async def call(self, work: Callable[[bool], Awaitable[T]]) -> T:
        """Run `work(probing)` if the circuit admits it.

        Raises:
            CircuitOpen: it does not.
            Exception: whatever `work` raises, unchanged.
        """
        await self.refresh()
        if self._memory.state is CircuitBreakerState.CLOSED:
            return await self._run(work, probing=False)
        if self._probing or self._still_open():
            raise CircuitOpen
        # Nothing may await between this check and the mark, or two callers of one process would pass.
        self._probing = True
        token = secrets.token_hex(8)
        try:
            if not await self._take_probe(token):
                raise CircuitOpen
            try:
                return await self._as_probe(work)
            finally:
                await self._release_probe(token)
        finally:
            self._probing = False

    async def _as_probe(self, work: Callable[[bool], Awaitable[T]]) -> T:
        # Another replica may have probed while we waited for our turn.
        await self.refresh()
        if self._memory.state is CircuitBreakerState.CLOSED:
            return await self._run(work, probing=False)
        if self._still_open():
            raise CircuitOpen
        self._breaker.half_open()
        self._changed()
        try:
            return await self._run(work, probing=True)
        finally:
            # Cancelled: nothing was learned, the next caller may probe.
            self._memory.withdraw()
            self._changed()

    async def _run(self, work: Callable[[bool], Awaitable[T]], *, probing: bool) -> T:
        try:
            answer: T = await self._breaker.call_async(work, probing)
        except aiobreaker.CircuitBreakerError as exc:
            # The call that opened the circuit: its own failure is the reason that the client is told.
            if isinstance(exc.__cause__, RetryableFailure):
                raise exc.__cause__ from None
            raise CircuitOpen from exc
        else:
            return answer
        finally:
            await self._publish()
            self._changed()

    def _still_open(self) -> bool:
        opened = self._memory.opened_at
        return opened is not None and _seconds(opened) + self._policy.open_seconds > self._clock.now().timestamp()

    async def refresh(self) -> None:
        """Take over what other replicas know. Without the store this process goes by its own knowledge."""
        try:
            failures, opened_at = await self._store.read()
        except RedisFailure:
            return
        if self._memory.changes:
            return  # ours are not out yet; they would be lost
        self._memory.load(failures, opened_at, half_open=self._probing)
        self._changed()

    async def _publish(self) -> None:
        changes, self._memory.changes = self._memory.changes, []
        try:
            for change in changes:
                if change == "failed":
                    if await self._store.failed() >= self._policy.failures and self.state is State.CLOSED:
                        self._breaker.open()  # failures of several replicas together
                        self._memory.changes = []
                        await self._store.opened(_seconds(self._memory.opened_at))
                elif change == "opened":
                    await self._store.opened(_seconds(self._memory.opened_at))
                else:
                    await self._store.closed()
        except RedisFailure:
            log.debug("circuit state not shared: redis is away")

    async def _take_probe(self, token: str) -> bool:
        try:
            return await self._store.take_probe(token, self._policy.probe_seconds)
        except RedisFailure:
            return True  # alone without the store, and one of this process only

    async def _release_probe(self, token: str) -> None:
        try:
            await self._store.release_probe(token)
        except RedisFailure:
            log.debug("probe not released: it expires by itself")

    def _changed(self) -> None:
        if self.state is not self._announced:
            self._announced = self.state
            log.warning("circuit changed", state=self.state.name, failures=self._memory.counter)
        self._on_change(self.state)


_STATES = {
    CircuitBreakerState.CLOSED: State.CLOSED,
    CircuitBreakerState.HALF_OPEN: State.HALF_OPEN,
    CircuitBreakerState.OPEN: State.OPEN,
}


def _seconds(opened_at: datetime | None) -> float:
    """Aiobreaker keeps naive UTC times."""
    return 0.0 if opened_at is None else opened_at.replace(tzinfo=UTC).timestamp()


class _Memory(CircuitMemoryStorage):  # type: ignore[misc]
    """aiobreaker's storage in this process; notes what has to be told to the others, and takes the time from us."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(CircuitBreakerState.CLOSED)
        self._state: CircuitBreakerState = CircuitBreakerState.CLOSED
        self._clock = clock
        self.changes: list[Change] = []

    @property
    def state(self) -> CircuitBreakerState:
        return self._state

    @state.setter
    def state(self, state: CircuitBreakerState) -> None:
        if state is not self._state and state is not CircuitBreakerState.HALF_OPEN:
            self.changes.append("opened" if state is CircuitBreakerState.OPEN else "closed")
        self._state = state

    def increment_counter(self) -> None:
        super().increment_counter()
        self.changes.append("failed")

    def reset_counter(self) -> None:
        # While open, a late success of a call from before says nothing.
        if self._fail_counter and self._state is CircuitBreakerState.CLOSED:
            self.changes.append("closed")
        super().reset_counter()

    @property
    def opened_at(self) -> datetime | None:
        return self._opened_at

    @opened_at.setter
    def opened_at(self, _: datetime | None) -> None:
        self._opened_at = self._clock.now().replace(tzinfo=None)

    def load(self, failures: int, opened_at: float | None, *, half_open: bool) -> None:
        """What the others know. `half_open`: the probe of this process is under way."""
        self._fail_counter = failures
        if opened_at is None:
            self._state = CircuitBreakerState.CLOSED
            return
        self._opened_at = datetime.fromtimestamp(opened_at, UTC).replace(tzinfo=None)
        self._state = CircuitBreakerState.HALF_OPEN if half_open else CircuitBreakerState.OPEN

    def withdraw(self) -> None:
        """A probe ended without a result."""
        if self._state is CircuitBreakerState.HALF_OPEN:
            self._state = CircuitBreakerState.OPEN
