from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cairn_local import state
from cairn_local.locks import Held, acquire
from cairn_local.state import Board, ProcessState, StackState


def test_every_change_is_on_disk_at_once_and_told(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    told: list[StackState] = []
    board = Board(file, StackState(pid=7), told.append)
    board.stack(phase="running", url="http://x")
    board.process("redis", status="ready", pid=5)
    board.process("redis", restarts=1)
    assert state.load(file) == told[-1] == board.state
    assert state.load(file).processes == {"redis": ProcessState("redis", status="ready", pid=5, restarts=1)}
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"phase": "running"}', '{"processes": {"a": {"unknown": 1}}}'])
def test_a_damaged_file_counts_as_nothing_running(tmp_path: Path, text: str) -> None:
    file = tmp_path / "state.json"
    file.write_text(text)
    assert state.load(file) == StackState()


def test_a_full_disk_does_not_take_the_stack_down(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    told: list[StackState] = []
    board = Board(folder / "state.json", StackState(), told.append)
    (folder / "state.json").unlink()
    folder.rmdir()
    board.stack(phase="running")
    assert told[-1].phase == "running"


def test_the_lock_tells_whether_a_supervisor_lives_and_a_crash_releases_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert not state.is_running(lock)
    script = (
        "import sys; from pathlib import Path; from cairn_local.locks import acquire\n"
        f"held = acquire(Path({str(lock)!r}), wait=False); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert state.is_running(lock)
        with pytest.raises(Held):
            acquire(lock, wait=False)
        holder.kill()
        holder.wait()
        assert not state.is_running(lock)


def test_the_state_file_is_plain_json(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    Board(file, StackState(url="http://x", processes={"redis": ProcessState("redis")}))
    assert json.loads(file.read_text())["processes"]["redis"]["status"] == "waiting"
