"""The process that keeps a stack: starts everything in order, heals what crashes, stops it all, leaves nothing."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from cairn_local import choices, leftovers, logs, ports, secrets_file, state
from cairn_local.home import Home
from cairn_local.keeper import Keeper, Launch, RestartPolicy, StartError, spawn
from cairn_local.locks import Held, acquire
from cairn_local.plan import Plan, build, wanted_ports
from cairn_local.settings import StackSettings
from cairn_local.state import Board, ProcessState, StackState
from cairn_local.threads import in_thread
from cairn_shared.clock import Clock, SystemClock
from cairn_shared.logging import get_logger

log = get_logger(__name__)

LOG_CHECK_SECONDS = 60.0


class AlreadyRunning(RuntimeError):
    """Another supervisor has the lock of this home."""


class Supervisor:
    """One run of a stack. `run` returns after a stop was asked for, or raises StartError."""

    def __init__(
        self,
        plan: Plan,
        home: Home,
        board: Board,
        *,
        clock: Clock | None = None,
        policy: RestartPolicy = RestartPolicy(),
        launch: Launch = spawn,
    ) -> None:
        self._plan = plan
        self._home = home
        self._board = board
        self._clock = clock or SystemClock()
        self._keepers = {
            unit.name: Keeper(unit, home.log(unit.name), board, clock=self._clock, policy=policy, launch=launch)
            for unit in plan.units
        }
        self._stop = asyncio.Event()

    def ask_to_stop(self) -> None:
        """Begin to stop; `run` returns when it is done."""
        self._stop.set()

    async def run(self) -> None:
        """Start, keep, stop.

        Raises:
            StartError: a process never came up; everything else was stopped again.
        """
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._check)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self.ask_to_stop)
        stopping = asyncio.create_task(self._stop.wait())
        keeping = [asyncio.create_task(self._keep(keeper)) for keeper in self._keepers.values()]
        extra = [asyncio.create_task(self._announce()), asyncio.create_task(self._tidy_logs())]
        failure: BaseException | None = None
        try:
            done, _ = await asyncio.wait([stopping, *keeping], return_when=asyncio.FIRST_COMPLETED)
            failure = next((task.exception() for task in done if task is not stopping), None)
            self._board.stack(phase="stopping", detail=str(failure or ""))
        finally:
            for task in extra:
                task.cancel()
            await self._end(keeping)
            stopping.cancel()
        if failure is not None:
            raise failure

    async def _keep(self, keeper: Keeper) -> None:
        for name in keeper.unit.needs:
            await self._keepers[name].ready.wait()
        await keeper.run()

    async def _announce(self) -> None:
        for keeper in self._keepers.values():
            await keeper.ready.wait()
        self._board.stack(phase="running")
        log.info("the stack is ready", url=self._plan.url)

    async def _tidy_logs(self) -> None:
        while True:
            await self._clock.sleep(LOG_CHECK_SECONDS)
            for name in (*self._keepers, "supervisor"):
                with suppress(OSError):
                    await in_thread(partial(logs.rotate, self._home.log(name)))

    async def _end(self, keeping: Sequence[asyncio.Task[None]]) -> None:
        """Stop those that depend on others first: services, then stores."""
        needed = {name for keeper in self._keepers.values() for name in keeper.unit.needs}
        stores = [keeper for name, keeper in self._keepers.items() if name in needed or name == "redis"]
        rest = [keeper for keeper in self._keepers.values() if keeper not in stores]
        for group in (rest, stores):
            await asyncio.gather(*(keeper.stop() for keeper in group))
        for task in keeping:
            task.cancel()
        await asyncio.gather(*keeping, return_exceptions=True)

    def _check(self) -> None:
        for keeper in self._keepers.values():
            keeper.check()


Builder = Callable[[StackSettings, Home, Mapping[str, int], Mapping[str, str], Mapping[str, str]], Plan]


def supervise(
    home: Home,
    settings: StackSettings,
    watch: Callable[[StackState], None] = lambda _: None,
    *,
    build: Builder = build,
) -> int:
    """Run the stack of `home` in this process until it is told to stop. Returns the exit code.

    Raises:
        AlreadyRunning: another process does.
    """
    home.create()
    try:
        lock = acquire(home.lock, wait=False)
    except Held:
        raise AlreadyRunning(str(home.root)) from None
    with lock:
        leftovers.clear(state.load(home.state).processes.values())
        board = Board(
            home.state,
            StackState(phase="starting", pid=os.getpid(), started=SystemClock().now().timestamp()),
            watch,
        )
        claims = ports.Claims()
        try:
            salt = choices.new_salt()
            board.stack(salt=salt, settings=choices.digests(os.environ, choices.names(), salt))
            given = ports.assign(wanted_ports(settings), ports.load(home.ports), free=claims.take)
            ports.save(home.ports, {**ports.load(home.ports), **given})
            secrets = secrets_file.ensure(home.env, CAIRN_URL=f"http://{ports.HOST}:{given['gateway']}")
            plan = build(settings, home, given, secrets, os.environ)
            board.stack(
                url=plan.url,
                broker=plan.broker,
                detail=_moved(settings.cairn_port, given["gateway"]),
                processes={unit.name: ProcessState(unit.name) for unit in plan.units},
            )
            asyncio.run(_run(plan, home, board))
        except (StartError, RuntimeError, OSError) as exc:
            log.error("the stack could not be started", reason=str(exc))  # noqa: TRY400 - the text is for the user
            board.stack(phase="failed", detail=str(exc))
            return 1
        finally:
            claims.release()
        board.stack(phase="stopped", detail="")
        return 0


def _moved(wanted: int, given: int) -> str:
    """What to tell a user whose port is taken."""
    if wanted == given:
        return ""
    return f"Port {wanted} is taken by another program: the gateway is on {given}, until a start finds {wanted} free."


async def _run(plan: Plan, home: Home, board: Board) -> None:
    await Supervisor(plan, home, board).run()
