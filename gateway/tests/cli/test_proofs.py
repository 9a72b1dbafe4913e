"""`cairn verify-fallback` judges an answer without a model; `cairn eval` runs the checkout's evaluation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import Result

from cairn_gateway.cli.fallback import judge

if TYPE_CHECKING:
    from gateway.tests.cli.conftest import FakeGateway

Run = Callable[..., Result]
Change = dict[str, Any]

BODY = "1. Run `redis-cli ping`."
STEP = {"runbook_id": "redis-down", "step": 1, "kind": "runbook", "cited": True, "content": BODY, "title": "Redis down"}
CITATION = {"runbook_id": "redis-down", "title": "Redis down", "step": 1, "marker": "[Redis down, Step 1]"}
ANSWER: dict[str, Any] = {
    "answer": f"{BODY} [Redis down, Step 1]",
    "mode": "excerpts",
    "degraded": True,
    "degraded_reason": "embedder_unavailable, llm_unreachable",
    "sources": [STEP, STEP | {"step": 2, "cited": False, "content": "other"}],
    "claims": [{"text": BODY, "citations": [CITATION]}],
}
STORED = {"redis-down": {"steps": [{"number": 1, "body": BODY + "\n"}]}}


def failed(change: Change, *, seconds: float = 1.0, stored: dict[str, Any] = STORED) -> list[str]:
    return [check.name for check in judge(ANSWER | change, seconds, 20.0, stored) if not check.ok]


def test_the_runbook_s_own_steps_pass() -> None:
    assert failed({}) == []
    assert failed({"mode": "keyword", "degraded_reason": "circuit_open"}) == []


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"mode": "full"}, ["mode"]),
        ({"mode": "refused", "sources": [], "claims": []}, ["mode", "cited", "verbatim"]),
        ({"degraded": False}, ["reason"]),
        ({"degraded_reason": None}, ["reason"]),
        ({"degraded_reason": "embedder_unavailable"}, ["reason"]),
        ({"sources": [STEP | {"content": "1. Run `redis-cli flushall`."}]}, ["verbatim"]),
        ({"sources": [STEP | {"step": 3}]}, ["verbatim", "citations"]),
        ({"sources": [STEP | {"kind": "commit"}]}, ["cited", "verbatim", "citations"]),
        ({"claims": [{"text": "x", "citations": [CITATION | {"runbook_id": "made-up"}]}]}, ["citations"]),
    ],
)
def test_each_fault_is_found(change: Change, names: list[str]) -> None:
    assert failed(change) == names


def test_a_late_answer_and_a_runbook_that_is_not_stored_are_found() -> None:
    assert failed({}, seconds=20.5) == ["time"]
    assert failed({}, stored={}) == ["verbatim"]


@pytest.fixture
def stored(gateway: FakeGateway) -> FakeGateway:
    gateway.runbooks = {
        "redis-down": {"id": "redis-down", "title": "Redis down", "markdown": BODY, "revision": 1, "event_id": "e"}
    }
    gateway.answer = ANSWER
    return gateway


def test_a_stored_runbook_s_title_is_asked_and_the_answer_is_judged(stored: FakeGateway, cairn: Run) -> None:
    result = cairn("verify-fallback")
    assert result.exit_code == 0, result.output
    assert re.fullmatch(r"asked: Redis down, \d\d:\d\d:\d\d", result.stdout.splitlines()[0])
    assert "verbatim   ok" in result.stdout
    report = json.loads(cairn("verify-fallback", "--json", "--question", "why?").stdout)
    assert (report["ok"], report["question"], report["answer"]) == (True, "why?", ANSWER)


def test_an_altered_step_ends_with_1(stored: FakeGateway, cairn: Run) -> None:
    stored.runbooks["redis-down"]["markdown"] = "1. Something else."
    result = cairn("verify-fallback")
    assert result.exit_code == 1
    assert "verbatim   FAILED  differ: redis-down step 1" in result.stdout
    assert "failed: verbatim" in result.stderr


@pytest.mark.parametrize("mode", ["full", "cached"])
def test_an_answer_of_the_model_proves_nothing(stored: FakeGateway, cairn: Run, mode: str) -> None:
    stored.answer = ANSWER | {"mode": mode, "degraded": False}
    result = cairn("verify-fallback")
    assert result.exit_code == 1
    assert "proves nothing" in result.stderr


def test_without_runbooks_there_is_nothing_to_ask(gateway: FakeGateway, cairn: Run) -> None:
    assert "cairn seed" in cairn("verify-fallback").stderr


def test_the_evaluation_of_the_checkout_is_run_with_its_arguments_address_and_key(
    gateway: FakeGateway, cairn: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "tests" / "eval" / "__main__.py"
    program.parent.mkdir(parents=True)
    program.write_text(
        "import os, sys\nprint(sys.argv[1:], os.environ['CAIRN_URL'], os.environ['CAIRN_API_KEY'], os.getcwd())\nsys.exit(7)\n"
    )
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path / "docs")
    result = cairn("eval", "golden", "--limit", "3")
    assert result.exit_code == 7
    assert capfd.readouterr().out == f"['golden', '--limit', '3'] {gateway.url} test-key {tmp_path}\n"


def test_without_a_checkout_there_is_no_evaluation(gateway: FakeGateway, cairn: Run) -> None:
    assert cairn("eval").exit_code == 2
