"""`cairn-local`: the one-machine stack from the command line."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from cairn_local import choices, health, launch, logs, screen, state
from cairn_local import home as homes
from cairn_local.home import Home
from cairn_local.settings import StackSettings
from cairn_shared import logging
from cairn_shared.settings import load

app = typer.Typer(
    help="Cairn on one machine: PostgreSQL, Redis, a MongoDB and a Kafka from pip packages, and Cairn's five services. "
    "Data, logs and secrets are in .cairn (or CAIRN_HOME).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
out = Console(soft_wrap=True)
err = Console(stderr=True, soft_wrap=True)


@app.command()
def up(
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return when it is ready; it goes on.")] = False,
) -> None:
    """Start the stack, or say that it runs. Without --detach it stays in the foreground; Ctrl-C stops it."""
    stack = homes.find()
    settings = load(StackSettings)
    progress = screen.Progress(err)
    if state.is_running(stack.lock):
        _join(stack, progress)
        return
    if detach:
        _await(stack, progress, launch.detach(stack))
        return
    told = False

    def watch(current: state.StackState) -> None:
        nonlocal told
        progress(current)
        if current.phase == "running" and not told:
            told = True
            err.print(f"Cairn is ready: {current.url}   (Ctrl-C stops it)", highlight=False)
            _tell_detail(current)
        elif current.phase == "failed":
            err.print(f"[red]Cairn could not be started.[/] {current.detail}", markup=True, highlight=False)

    from cairn_local import supervisor

    logging.configure("cairn-local", "ERROR")
    try:
        code = supervisor.supervise(stack, settings, watch)
    except supervisor.AlreadyRunning:
        _join(stack, progress)
        return
    raise typer.Exit(code)


@app.command(hidden=True)
def supervise() -> None:
    """Run the stack without a terminal; `up --detach` starts this."""
    from cairn_local import supervisor

    logging.configure("cairn-local")
    try:
        raise typer.Exit(supervisor.supervise(homes.find(), load(StackSettings)))
    except supervisor.AlreadyRunning as exc:
        err.print(f"it runs already in {exc}")
        raise typer.Exit(3) from exc


@app.command()
def down() -> None:
    """Stop the stack; data stays."""
    stack = homes.find()
    try:
        ran = launch.stop(stack)
    except launch.LaunchError as exc:
        err.print(f"[red]{exc}[/]")
        raise typer.Exit(1) from exc
    err.print("Cairn has stopped." if ran else "Cairn was not running.")


@app.command()
def status(
    as_json: Annotated[bool, typer.Option("--json", help="The state as JSON.")] = False,
) -> None:
    """Show every process. Exit code 0: all are ready; 1: some are not; 3: the stack does not run."""
    stack = homes.find()
    running = state.is_running(stack.lock)
    current = state.load(stack.state)
    if running:
        current = health.now(current)
    if as_json:
        shown = {name: value for name, value in asdict(current).items() if name not in ("salt", "settings")}
        out.print_json(json.dumps({**shown, "running": running}))
    elif running:
        out.print(screen.table(current, time.time()))
        out.print(f"\n{current.phase}: {current.url}   broker: {current.broker}   logs: {stack.logs}", highlight=False)
        _tell_detail(current)
    else:
        err.print(f"Cairn is not running. {current.detail}".rstrip(), markup=False)
    if not running:
        raise typer.Exit(3)
    raise typer.Exit(1 if screen.problems(current) else 0)


@app.command("logs")
def show_logs(
    process: Annotated[str | None, typer.Argument(help="One process; all of them when left out.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Last lines of each.")] = 50,
) -> None:
    """Print the log of one process, or of all."""
    stack = homes.find()
    files = sorted(stack.logs.glob("*.log")) if process is None else [stack.log(process)]
    if not files or not all(file.exists() for file in files):
        known = ", ".join(sorted(file.stem for file in stack.logs.glob("*.log"))) or "none"
        err.print(f"there is no log of {process or 'any process'} in {stack.logs}; there are: {known}", markup=False)
        raise typer.Exit(2)
    width = max(len(file.stem) for file in files) if process is None else 0
    following = logs.follow(files) if follow else None
    for file in files:
        for line in logs.tail(file, lines):
            _line(file.stem, width, line)
    if following is not None:
        try:
            for file, line in following:
                _line(file.stem, width, line)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


@app.command()
def migrate() -> None:
    """Create or update the schema and the topics: of PG_DSN and KAFKA_BOOTSTRAP_SERVERS, for a job of its own.

    The one-machine stack does it by itself at every start.
    """
    from cairn_local.migrate import run

    raise typer.Exit(run())


def _line(name: str, width: int, line: str) -> None:
    out.out(f"{name:<{width}} | {line}" if width else line, highlight=False)


def _join(stack: Home, progress: screen.Progress) -> None:
    """Another process has the stack: wait until it is ready, then say where it is."""
    current = state.load(stack.state)
    if current.phase == "running":
        err.print(f"Cairn is running already: {current.url}   (pid {current.pid})", highlight=False)
        _tell_detail(current)
    else:
        _await(stack, progress, None)
    _tell_differing(state.load(stack.state))


def _tell_detail(current: state.StackState) -> None:
    if current.detail:
        err.print(current.detail, style="yellow", markup=False, highlight=False)


def _tell_differing(running: state.StackState) -> None:
    """A running stack keeps the settings it was started with: say which ones of this environment it does not have."""
    if not running.salt:  # started by an earlier version
        return
    now = choices.digests(os.environ, choices.names(), running.salt)
    if names := choices.differing(running.settings, now):
        err.print(
            f"It runs with other settings than those given now; these differ: {', '.join(names)}. "
            "`make stop && make run` (or `cairn-local down && cairn-local up --detach`, with them set) applies them.",
            style="yellow",
            markup=False,
            highlight=False,
        )


def _await(stack: Home, progress: screen.Progress, started: launch.Detached | None) -> None:
    try:
        current = launch.wait_ready(stack, progress, started)
    except launch.LaunchError as exc:
        err.print("[red]Cairn could not be started.[/]", end=" ")
        err.print(str(exc), markup=False, highlight=False)
        err.print(f"logs: {stack.logs}", highlight=False)
        raise typer.Exit(1) from exc
    err.print(f"Cairn is ready: {current.url}", highlight=False)
    _tell_detail(current)


def main() -> None:
    """The console script."""
    app()


if __name__ == "__main__":
    main()
