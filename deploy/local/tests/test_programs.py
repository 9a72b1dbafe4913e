"""Child processes never outlive their parent, whatever ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from cairn_local.programs import Program, start, stop

SLEEPER = "import time, signal, subprocess, sys; print('up', flush=True); time.sleep(600)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
PARENT_OF_SLEEPER = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEPER!r}]); input()"


def program(script: str, **options: object) -> Program:
    values: dict[str, object] = {"grace": 5.0, **options}
    return Program("it", (sys.executable, "-c", script), **values)  # type: ignore[arg-type]


def wait_for(log: Path, text: str) -> None:
    deadline = time.monotonic() + 10
    while text not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)


def test_stop_ends_a_listening_process_at_once_and_a_deaf_one_after_the_grace_time(tmp_path: Path) -> None:
    for script, code in ((SLEEPER, -signal.SIGTERM), (DEAF, -signal.SIGKILL)):
        log = tmp_path / "log"
        with log.open("wb") as output:
            process = start(program(script, grace=0.3), output)
        wait_for(log, "up")
        assert stop(process, program(script, grace=0.3)) == code


def test_stop_takes_grandchildren_along(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = PARENT_OF_SLEEPER.replace("input()", "import time; time.sleep(600)")
    with log.open("wb") as output:
        process = start(program(script), output)
    wait_for(log, "up")
    (grandchild,) = psutil.Process(process.pid).children()
    stop(process, program(script))
    psutil.wait_procs([grandchild], timeout=5)
    assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE


def test_the_environment_is_passed_on_with_additions_and_without_what_is_taken_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEPT", "1")
    monkeypatch.setenv("GONE", "1")
    script = "import os; print([os.environ.get(name) for name in ('KEPT', 'GONE', 'NEW')], flush=True)"
    log = tmp_path / "log"
    with log.open("wb") as output:
        start(program(script, env={"GONE": None, "NEW": "2"}), output).wait()
    assert log.read_text() == "['1', None, '2']\n"


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_the_kernel_kills_the_child_when_its_parent_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    parent_script = (
        "import sys, time; from cairn_local.programs import Program, start\n"
        f"child = start(Program('it', (sys.executable, '-c', {SLEEPER!r})), open({str(log)!r}, 'wb'))\n"
        "print(child.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", parent_script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        wait_for(log, "up")
        parent.kill()
        parent.wait()
    psutil.wait_procs([child], timeout=5)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_leash_ends_its_program_with_the_owner_whose_folder_it_then_removes(
    tmp_path: Path, end: signal.Signals
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    log = tmp_path / "log"
    owner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    command = [sys.executable, "-m", "cairn_local.leash", "--owner", str(owner.pid), "--remove", str(data)]
    with log.open("wb") as output:
        leash = subprocess.Popen([*command, "--", sys.executable, "-c", SLEEPER], stdout=output, stderr=output)
    wait_for(log, "up")
    (child,) = psutil.Process(leash.pid).children()
    os.kill(owner.pid if end is signal.SIGKILL else leash.pid, end)
    if end is signal.SIGKILL:
        owner.wait()
    leash.wait(10)
    assert not child.is_running()
    assert data.exists() == (end is signal.SIGTERM)
    owner.kill()
    owner.communicate()
