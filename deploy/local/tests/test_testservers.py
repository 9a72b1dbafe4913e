"""The servers of a test run end with it, also when it is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from cairn_local.testservers import StartFailed, TestServers

RUN = """
import sys
from cairn_local.testservers import TestServers
servers = TestServers.create()
print(servers.redis(), servers.folder, flush=True)
sys.stdin.read()
servers.stop()
"""


@pytest.mark.parametrize("killed", [False, True])
def test_servers_and_folder_go_with_the_run(killed: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", RUN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdin is not None
        address, folder = run.stdout.readline().split()
        leash = psutil.Process(json.loads((Path(folder) / "redis.json").read_text())["pid"])
        server = leash.children()[0]
        assert address.startswith("redis://")
        if killed:
            run.kill()
        run.stdin.close()
        run.wait(20)
    psutil.wait_procs([leash, server], timeout=10)
    assert not leash.is_running()
    assert not server.is_running()
    deadline = time.monotonic() + 5
    while Path(folder).exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_two_workers_share_one_server(tmp_path: Path) -> None:
    first, second = TestServers(tmp_path, os.getpid()), TestServers(tmp_path, os.getpid())
    try:
        assert first.redis() == second.redis()
    finally:
        first.stop()


def test_a_server_that_does_not_start_is_an_error_with_its_last_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cairn_local.backends.chosen", lambda: "local")
    monkeypatch.setattr("cairn_local.stores.tansu.binary", lambda: Path("/bin/false"))
    with pytest.raises(StartFailed, match="kafka did not start"):
        TestServers(tmp_path, os.getpid()).kafka()


def test_folders_of_killed_runs_are_swept_and_others_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    old, alive, foreign = (
        tmp_path / f"cairn-tests-{ended.pid}-x",
        tmp_path / f"cairn-tests-{os.getpid()}-y",
        tmp_path / "cairn-tests-notes-1",
    )
    for folder in (old, alive, foreign):
        folder.mkdir()
    made = TestServers.create()
    assert sorted(tmp_path.iterdir()) == sorted([alive, foreign, made.folder])
    made.stop()
