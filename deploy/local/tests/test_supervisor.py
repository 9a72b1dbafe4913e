"""The supervisor with real processes: heals, stops, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from typer.testing import CliRunner, Result

from cairn_local import launch, services, state
from cairn_local.__main__ import app
from cairn_local.home import Home
from cairn_local.ports import free_port
from cairn_local.programs import python_module
from cairn_local.state import StackState
from cairn_local.stores import containers, mongo

STAND_IN = Path(__file__).with_name("stand_in_stack.py")


def until(condition: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


class Stack:
    """One stand-in stack in a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root)
        self.env = {**os.environ, "CAIRN_HOME": str(root), "CAIRN_PORT": str(free_port())}
        self.supervisor: subprocess.Popen[bytes] | None = None

    def start(self, **env: str) -> subprocess.Popen[bytes]:
        self.home.create()
        with self.home.log("supervisor").open("ab") as output:
            self.supervisor = subprocess.Popen(
                [sys.executable, str(STAND_IN)], env={**self.env, **env}, stdout=output, stderr=output
            )
        return self.supervisor

    def state(self) -> StackState:
        return state.load(self.home.state)

    def running(self) -> bool:
        now = self.state()
        return (
            now.phase == "running"
            and self.supervisor is not None
            and now.pid == self.supervisor.pid
            and all(process.status == "ready" for process in now.processes.values())
        )

    def family(self) -> list[psutil.Process]:
        assert self.supervisor is not None
        return psutil.Process(self.supervisor.pid).children(recursive=True)

    def command(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments))


def all_gone(processes: list[psutil.Process], seconds: float = 5.0) -> bool:
    psutil.wait_procs(processes, timeout=seconds)
    return not [alive for alive in processes if alive.is_running() and alive.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    made = Stack(tmp_path / "home")
    monkeypatch.setenv("CAIRN_HOME", str(made.home.root))
    yield made
    if made.supervisor is not None and made.supervisor.poll() is None:
        made.supervisor.terminate()
        made.supervisor.wait(20)


def test_everything_starts_in_order_and_stops_without_a_trace(stack: Stack) -> None:
    supervisor = stack.start()
    until(stack.running, "running")
    now = stack.state()
    assert httpx.get(now.url).status_code == 200
    assert now.processes["base"].since <= now.processes["front"].since
    family = stack.family()
    assert len(family) == 3
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(20) == 0
    assert all_gone(family)
    assert stack.state().phase == "stopped"
    assert not state.is_running(stack.home.lock)


@pytest.mark.parametrize("victim", ["base", "front"])
def test_a_killed_process_is_started_again_and_its_children_do_not_pile_up(stack: Stack, victim: str) -> None:
    stack.start()
    until(stack.running, "running")
    before = stack.state().processes
    pid = before[victim].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: stack.state().processes[victim].restarts == 1 and stack.running(), "healed")
    after = stack.state().processes
    assert after[victim].pid not in (None, pid)
    other = ({"base", "front"} - {victim}).pop()
    assert after[other] == before[other]
    assert httpx.get(after[victim].address).status_code == 200
    assert len(stack.family()) == 3


def test_two_stacks_that_start_at_once_share_no_port(stack: Stack, tmp_path: Path) -> None:
    other = Stack(tmp_path / "other")
    both = (stack, other)
    for starting in both:
        starting.start(CAIRN_PORT=stack.env["CAIRN_PORT"])
    try:
        for started in both:
            until(started.running, "running")
        addresses = [process.address for started in both for process in started.state().processes.values()]
        assert len(set(addresses)) == len(addresses) == 4
    finally:
        assert other.supervisor is not None
        other.supervisor.terminate()
        other.supervisor.wait(20)


def test_nothing_outlives_a_killed_supervisor_and_the_next_one_starts_on_the_same_ports(stack: Stack) -> None:
    supervisor = stack.start()
    until(stack.running, "running")
    url = stack.state().url
    direct = [psutil.Process(process.pid) for process in stack.state().processes.values() if process.pid]
    supervisor.kill()
    supervisor.wait()
    assert all_gone(direct)
    assert not state.is_running(stack.home.lock)
    stack.start()
    until(stack.running, "running again")
    assert stack.state().url == url


def test_a_process_that_cannot_start_ends_the_stack_with_its_own_words(stack: Stack) -> None:
    supervisor = stack.start(BROKEN="1")
    assert supervisor.wait(20) == 1
    failed = stack.state()
    assert failed.phase == "failed"
    assert failed.detail.startswith("broken: ended with exit code 2")
    assert "the disk is on fire" in failed.detail
    assert {process.pid for process in failed.processes.values()} == {None}
    with pytest.raises(launch.LaunchError, match="the disk is on fire"):
        launch.wait_ready(stack.home, lambda _: None, launch.Detached(supervisor.pid))


def test_no_file_of_the_current_folder_is_imported_by_what_up_starts(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "somewhere"
    folder.mkdir()
    ran = folder / "ran"
    for name in ("grp", "cairn_local", "cairn_gateway", "typer", "json"):
        (folder / f"{name}.py").write_text(f"open({str(ran)!r}, 'w'); raise SystemExit('foreign code')")
    monkeypatch.chdir(folder)
    for module in ("cairn_local", "cairn_gateway.cli", "secantus"):
        done = subprocess.run([*python_module(module), "--help"], capture_output=True, text=True)
        assert "foreign code" not in done.stderr
    assert not ran.exists()
    # Everything that the stack starts is started in this way.
    for server in (services.gateway(1, {}), mongo.server(tmp_path, 1), containers.mongo(1)):
        assert server.program.argv[1:3] == ("-P", "-m")


def test_a_supervisor_that_ends_early_leaves_its_reason_not_its_log(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack.home.create()
    stack.home.log("supervisor").write_text('{"level": "error", "event": "of an earlier start"}\n')
    monkeypatch.setenv("CAIRN_HOME", str(stack.home.root))
    monkeypatch.setattr(
        launch,
        "python_module",
        lambda _: (
            *(sys.executable, "-c"),
            'print(\'{"level": "debug", "event": "of no use"}\', flush=True); import the_missing_module; ',
        ),
    )
    with pytest.raises(launch.LaunchError) as ended:
        launch.wait_ready(stack.home, lambda _: None, launch.detach(stack.home))
    assert str(ended.value) == ("the supervisor ended:\n  ModuleNotFoundError: No module named 'the_missing_module'")


def test_a_second_up_says_that_it_runs_and_a_second_supervisor_refuses(stack: Stack) -> None:
    stack.start()
    until(stack.running, "running")
    family = {process.pid for process in stack.family()}
    again = stack.command("up", "--detach")
    assert (again.exit_code, again.stdout) == (0, "")
    assert f"Cairn is running already: {stack.state().url}" in again.stderr
    assert stack.command("supervise").exit_code == 3
    assert {process.pid for process in stack.family()} == family


def test_up_on_a_running_stack_names_the_settings_that_it_does_not_have(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAIRN_PORT", stack.env["CAIRN_PORT"])
    stack.start(LLM_MODEL="small", LLM_API_KEY="sesame")
    until(stack.running, "running")
    monkeypatch.setenv("LLM_MODEL", "small")
    monkeypatch.setenv("LLM_API_KEY", "sesame")
    monkeypatch.setenv("LLM_BASE_URL", "")
    monkeypatch.setenv("PG_DSN", "the stack gives this itself")
    assert "differ" not in stack.command("up", "--detach").stderr
    monkeypatch.setenv("LLM_MODEL", "large")
    monkeypatch.setenv("LLM_BASE_URL", "http://model/v1")
    monkeypatch.delenv("LLM_API_KEY")
    again = stack.command("up", "--detach")
    assert again.exit_code == 0
    assert "these differ: LLM_API_KEY, LLM_BASE_URL, LLM_MODEL. `make stop && make run`" in again.stderr
    assert "sesame" not in stack.home.state.read_text()
    assert "settings" not in stack.command("status", "--json").stdout


def test_down_stops_status_and_logs_tell(stack: Stack) -> None:
    assert stack.command("status").exit_code == 3
    assert "was not running" in stack.command("down").stderr
    supervisor = stack.start()
    until(stack.running, "running")
    family = stack.family()
    shown = stack.command("status")
    assert shown.exit_code == 0
    assert "front" in shown.stdout
    assert '"running": true' in stack.command("status", "--json").stdout
    assert stack.command("logs", "base").stdout == "serving\n"
    unknown = stack.command("logs", "nobody")
    assert unknown.exit_code == 2
    assert "there are: base, front, supervisor" in unknown.stderr
    stopped = stack.command("down")
    assert (stopped.exit_code, stopped.stderr) == (0, "Cairn has stopped.\n")
    assert supervisor.poll() == 0
    assert all_gone(family)


def test_a_stop_waits_for_the_process_itself_but_not_for_its_parent_to_reap_it() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        watched = psutil.Process(process.pid)
        assert not launch.wait_ended(watched, 0.2)
        assert process.stdin is not None
        process.stdin.close()
        assert launch.wait_ended(watched, 10)
        assert watched.status() == psutil.STATUS_ZOMBIE


def test_a_port_that_is_taken_is_replaced_and_the_command_line_is_told(stack: Stack) -> None:
    import socket

    with socket.create_server(("127.0.0.1", int(stack.env["CAIRN_PORT"]))):
        supervisor = stack.start()
        until(stack.running, "running")
        url = stack.state().url
        told = stack.command("up", "--detach").stderr
    wanted = stack.env["CAIRN_PORT"]
    assert f"Port {wanted} is taken by another program: the gateway is on {url.rpartition(':')[2]}" in told
    assert not url.endswith(f":{wanted}")
    assert f"CAIRN_URL={url}\n" in stack.home.env.read_text()
    assert stack.home.env.stat().st_mode & 0o777 == 0o600
    assert stack.command("down").exit_code == 0
    assert supervisor.wait(5) == 0
    stack.start()
    until(stack.running, "running again")
    assert stack.state().url.endswith(f":{wanted}")
    assert stack.state().detail == ""


def test_what_still_retries_in_a_thread_does_not_hold_up_the_stop(stack: Stack) -> None:
    supervisor = stack.start(STUCK="1")
    until(lambda: "stuck" in stack.state().processes and stack.state().processes["stuck"].pid is not None, "started")
    time.sleep(0.5)
    began = time.monotonic()
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(20) == 0
    assert time.monotonic() - began < 10
