"""One question after another: what is sent along, what is kept, and for whom."""

from __future__ import annotations

import contextlib
import os
import select
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import Result

from cairn_gateway.cli.thread import Thread
from cairn_shared.api.ask import AskRequest

if TYPE_CHECKING:
    from gateway.tests.cli.conftest import FakeGateway, Reply

Run = Callable[..., Result]


def source(runbook: str, step: int, *, cited: bool = True, kind: str = "runbook") -> dict[str, Any]:
    return {"runbook_id": runbook, "kind": kind, "title": "T", "step": step, "cited": cited, "score": 1.0}


ANSWER: dict[str, Any] = {
    "answer": "Restart it. [T, Step 2]",
    "mode": "excerpts",
    "sources": [source("redis", 2), source("redis", 3), source("other", 1, cited=False), source("c", 1, kind="commit")],
}
SHOWN = [{"runbook_id": "redis", "steps": [2, 3]}]


def asked(gateway: FakeGateway) -> list[Any]:
    return [seen.json() for seen in gateway.requests]


def test_a_question_can_go_on_from_the_last_answer(gateway: FakeGateway, cairn: Run, tmp_path: Path) -> None:
    gateway.answer = ANSWER
    cairn("ask", "redis is down")
    gateway.answer = ANSWER | {"follows": True}
    result = cairn("ask", "-c", "what if that fails?")
    assert "about the answer before" in result.stdout
    cairn("ask", "--continue", "and then?")
    bodies = asked(gateway)
    assert "context" not in bodies[0]
    assert bodies[1]["context"] == {"question": "redis is down", "cited": SHOWN}
    assert bodies[2]["context"]["question"] == "redis is down", "the words that say what it is about"
    for body in bodies:
        AskRequest.model_validate(body)
    kept = tmp_path / "state" / "cairn"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (kept, *kept.iterdir())] == [0o700, 0o600]
    assert "Restart" not in (kept / "last-answer.json").read_text()


def test_there_has_to_be_an_answer_of_the_same_cairn(
    gateway: FakeGateway, cairn: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert cairn("ask", "-c", "and then?").exit_code == 2
    gateway.answer = ANSWER
    cairn("ask", "redis is down")
    file = tmp_path / "state" / "cairn" / "last-answer.json"
    file.write_text(file.read_text().replace(gateway.url, "https://cairn.example.com"))
    assert "no answer of" in cairn("ask", "-c", "and then?").stderr
    for broken in ("", "[]", "{", '{"url": 7}'):
        file.write_text(broken)
        assert cairn("ask", "-c", "and then?").exit_code == 2
    assert len(gateway.requests) == 1


def test_a_choice_is_narrowed_by_words_or_by_its_number(gateway: FakeGateway, cairn: Run) -> None:
    choices = [{"runbook_id": "redis-a"}, {"runbook_id": "redis-b"}]
    gateway.stream = [("done", {"answer": "Which?", "mode": "choose", "sources": [], "choices": choices})]
    cairn("chat", stdin="restart redis\n2\n3\nthe sentinel\n")
    first, number, no_number, words = asked(gateway)
    assert "filters" not in first
    assert (number["question"], number["filters"]) == ("restart redis", {"runbooks": ["redis-b"]})
    assert "context" not in number
    both = {"question": "restart redis", "cited": [{"runbook_id": one["runbook_id"], "steps": []} for one in choices]}
    assert (no_number["question"], no_number["context"]) == ("3", both)
    assert words["question"] == "the sentinel"


def test_a_refusal_leaves_what_was_shown(gateway: FakeGateway, cairn: Run) -> None:
    gateway.answer = ANSWER
    cairn("ask", "redis is down")
    gateway.answer = {"answer": "I don't have a runbook covering that", "mode": "refused", "sources": []}
    assert cairn("ask", "-c", "who won?").exit_code == 1
    cairn("ask", "-c", "and then?")
    assert asked(gateway)[-1]["context"] == {"question": "redis is down", "cited": SHOWN}


def test_state_that_cannot_be_kept_costs_no_answer(
    gateway: FakeGateway, cairn: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    gateway.answer = ANSWER
    assert cairn("ask", "redis is down").exit_code == 0


def test_what_is_kept_always_fits_the_next_request() -> None:
    sources = [source(f"r{number % 30}", number) for number in range(12_000)]
    thread = Thread.after({"question": " x" * 40_000}, {"sources": sources})
    assert AskRequest.model_validate({"question": "?", "context": thread.context()}).context is not None


def test_every_line_of_a_pipe_is_a_question_of_a_conversation(
    gateway: FakeGateway, cairn: Run, reply: type[Reply]
) -> None:
    gateway.stream = [("done", ANSWER | {"follows": True})]
    gateway.script(None, reply(503, {"detail": "busy"}), None, None)
    result = cairn("chat", "-k", "3", stdin="redis is down\n\nwhat now?\nwhy?\n/new\nand mongo?\n")
    assert result.exit_code == 0, result.stderr
    contexts = [body.get("context", {}).get("question") for body in asked(gateway)]
    assert contexts == [None, "redis is down", "redis is down", None], "a failure ends no conversation"
    assert all(body["k"] == 3 and body["stream"] for body in asked(gateway))
    assert "busy" in result.stderr
    cairn("chat", "-c", stdin="go on\n")
    assert asked(gateway)[-1]["context"] == {"question": "and mongo?", "cited": SHOWN}


def test_a_key_that_is_refused_ends_the_conversation(gateway: FakeGateway, cairn: Run) -> None:
    gateway.key = "another"
    assert cairn("chat", stdin="redis is down\nwhy?\n").exit_code == 5
    assert len(gateway.requests) == 1


def test_at_a_terminal_it_is_a_prompt_with_history(gateway: FakeGateway, tmp_path: Path) -> None:
    gateway.stream = [("done", ANSWER)]
    leader, follower = os.openpty()
    chat = subprocess.Popen(
        [sys.executable, "-c", "from cairn_gateway.cli.main import app; app()", "chat"],
        stdin=follower, stdout=follower, stderr=follower, env={**os.environ, "TERM": "dumb"}, close_fds=True,
    )  # fmt: skip
    os.close(follower)
    try:
        os.write(leader, b"redis is down\r")
        said = b""
        while b"Restart it." not in said:
            said += os.read(leader, 4096)
        deadline = time.monotonic() + 20
        while chat.poll() is None and time.monotonic() < deadline:
            os.write(leader, b"\x04")  # what comes before the prompt is ready is nobody's
            if select.select([leader], [], [], 0.2)[0]:
                with contextlib.suppress(OSError):  # the other end is closed
                    os.read(leader, 4096)
        assert chat.returncode == 0
    finally:
        chat.kill()
        chat.wait()
        os.close(leader)
    history = tmp_path / "state" / "cairn" / "questions"
    assert "redis is down" in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
