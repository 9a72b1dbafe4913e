"""`make run` with stand-ins for its two programs: what it goes on after, and what it ends with."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


def run(folder: Path, *, status: int = 3, up: int = 0, seed: int = 0, ask: int = 0) -> subprocess.CompletedProcess[str]:
    for name, codes in (("cairn-local", {"status": status, "up": up}), ("cairn", {"seed": seed, "ask": ask})):
        program = folder / name
        cases = "".join(f"{command}) exit {code};; " for command, code in codes.items())
        program.write_text(f'#!/bin/sh\necho "did $1"\ncase $1 in {cases}esac\n')
        program.chmod(0o755)
    (folder / "env").write_text("CAIRN_URL=http://here\n")
    return subprocess.run(
        ["make", "--old-file=install", "run", f"BIN={folder}", f"CAIRN_HOME={folder}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def test_a_demo_runbook_that_is_rejected_stops_neither_the_question_nor_the_last_lines(tmp_path: Path) -> None:
    done = run(tmp_path, seed=3)
    assert done.returncode == 0, done.stderr
    assert "did ask" in done.stdout
    assert "API:    http://here" in done.stdout
    assert "Stop:   make stop" in done.stdout


@pytest.mark.parametrize("codes", [{"seed": 4}, {"ask": 1}])
def test_other_failures_are_the_end_of_make_but_the_last_lines_are_said(tmp_path: Path, codes: dict[str, int]) -> None:
    done = run(tmp_path, **codes)
    assert done.returncode != 0
    assert "Stop:   make stop" in done.stdout


def test_a_running_stack_is_neither_seeded_nor_asked(tmp_path: Path) -> None:
    done = run(tmp_path, status=0)
    assert done.returncode == 0
    assert "did up" in done.stdout
    assert "did seed" not in done.stdout
    assert "did ask" not in done.stdout


def test_a_stack_that_does_not_start_is_asked_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, up=1)
    assert done.returncode != 0
    assert "did seed" not in done.stdout
    assert "API:" not in done.stdout
