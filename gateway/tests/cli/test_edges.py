"""Failures, terminals and pipes: what every command has in common."""

from __future__ import annotations

import json
import os
import pty
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import Result

from cairn_gateway.cli.client import as_typed

if TYPE_CHECKING:
    from gateway.tests.cli.conftest import FakeGateway, Reply

Run = Callable[..., Result]
COMMAND = [sys.executable, "-c", "from cairn_gateway.cli.main import app; app(prog_name='cairn')"]


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, 3), (401, 5), (403, 5), (404, 1), (409, 3), (412, 3), (413, 3), (422, 3), (429, 4), (500, 4), (503, 4)],
)
def test_each_refusal_has_its_exit_code_and_says_what_the_problem_says(
    gateway: FakeGateway, cairn: Run, status: int, code: int
) -> None:
    gateway.refuse("GET", "/status", status, "because of this", field="that")
    result = cairn("status", "--json")
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.splitlines()[0] == "cairn: that: because of this"


def test_a_field_is_not_named_twice(gateway: FakeGateway, cairn: Run) -> None:
    gateway.refuse("GET", "/status", 422, "limit: too large", field="limit")
    assert cairn("status").stderr == "cairn: limit: too large\n"


def test_a_missing_key_says_where_it_comes_from(
    gateway: FakeGateway, cairn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CAIRN_API_KEY")
    result = cairn("status")
    assert result.exit_code == 5
    assert "CAIRN_API_KEY" in result.stderr
    assert "authorization" not in gateway.requests[0].headers


def test_the_key_is_sent_and_never_shown(gateway: FakeGateway, cairn: Run) -> None:
    gateway.key = "another"
    result = cairn("status")
    assert gateway.requests[0].headers["authorization"] == "Bearer test-key"
    assert "test-key" not in result.output


def test_an_internal_error_shows_the_request_id(gateway: FakeGateway, cairn: Run) -> None:
    gateway.refuse("GET", "/status", 500, "Something went wrong on our side", request_id="r-17")
    assert "request id r-17" in cairn("status").stderr


def test_a_refused_connection_says_how_to_start(cairn: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("CAIRN_URL", f"http://127.0.0.1:{unused.getsockname()[1]}")
        monkeypatch.chdir(tmp_path)
        started = time.monotonic()
        result = cairn("ask", "why?")
    assert result.exit_code == 4
    assert "connection refused" in result.stderr
    assert "make run" in result.stderr
    assert time.monotonic() - started < 5


def test_an_import_does_not_wait_for_a_cairn_that_never_answered(
    cairn: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.md").write_text("# A\n")
    monkeypatch.setenv("CAIRN_URL", "http://127.0.0.1:9")
    started = time.monotonic()
    assert cairn("import", str(tmp_path)).exit_code == 4
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("body", [b"<html>welcome</html>", b"[]", b""])
def test_something_else_at_the_address_is_noticed(
    gateway: FakeGateway, cairn: Run, reply: type[Reply], body: bytes
) -> None:
    gateway.script(reply(200, body, {"content-type": "text/html"}))
    result = cairn("status")
    assert result.exit_code == 4
    assert "CAIRN_URL" in result.stderr


def test_a_redirect_is_not_followed_with_the_key(gateway: FakeGateway, cairn: Run, reply: type[Reply]) -> None:
    gateway.script(reply(307, b"", {"location": "https://elsewhere.example.com/status"}))
    result = cairn("status")
    assert result.exit_code == 4
    assert "https://elsewhere.example.com/status" in result.stderr
    assert len(gateway.requests) == 1


def test_a_proxy_for_the_world_is_not_used_for_this_machine(
    gateway: FakeGateway, cairn: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    gateway.users = {"a": {"id": "a"}}
    assert cairn("users", "ls").exit_code == 0


def test_warnings_go_to_stderr(gateway: FakeGateway, cairn: Run, tmp_path: Path) -> None:
    (tmp_path / ".cairn").mkdir()
    (tmp_path / ".cairn" / "env").write_text("CAIRN_API_KEY=x")
    (tmp_path / ".cairn" / "env").chmod(0o666)
    gateway.users = {"a": {"id": "a"}}
    result = cairn("users", "ls", "--json")
    assert json.loads(result.stdout)["users"][0]["id"] == "a"
    assert "others may write it" in result.stderr


def test_text_from_a_runbook_cannot_steer_the_terminal(gateway: FakeGateway, cairn: Run) -> None:
    gateway.answer = {"answer": "a\x1b]0;owned\x07b\x9b2J [red]c[/red] :smile:", "mode": "full", "sources": []}
    assert cairn("ask", "why?").stdout.splitlines()[0] == "a�]0;owned�b�2J [red]c[/red] :smile:"


def test_nothing_is_wrapped_or_coloured_in_a_pipe(gateway: FakeGateway, cairn: Run) -> None:
    text = "kubectl " + "x" * 500
    gateway.answer = {"answer": text, "mode": "full", "sources": []}
    assert cairn("ask", "why?").stdout.splitlines()[0] == text


def test_help_lists_the_exit_codes(cairn: Run) -> None:
    result = cairn("--help")
    assert result.exit_code == 0
    for line in (
        "0  done",
        "1  the answer is no",
        "2  wrong usage",
        "3  ",
        "4  Cairn cannot be reached",
        "5  no API key",
    ):
        assert line in result.stdout


def test_help_loads_neither_the_server_nor_the_http_client() -> None:
    script = (
        "import sys; from cairn_gateway.cli.main import app\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}"
        " & {'httpx', 'fastapi', 'uvicorn', 'motor', 'confluent_kafka', 'pydantic', 'structlog'}))\n"
        "print(*(name for name in sys.modules if name.startswith('cairn_gateway.') and '.cli' not in name))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_version_is_told(cairn: Run) -> None:
    assert re.fullmatch(r"cairn \d+\.\d+\.\d+\n", cairn("--version").stdout)


def test_a_terminal_gets_colours_and_tables(gateway: FakeGateway) -> None:
    gateway.users = {"user-a": {"id": "user-a", "name": "A", "role": "admin"}}
    shown = in_terminal("users", "ls")
    assert "\x1b[1m" in shown
    assert "Name" in shown
    assert "user-a" in shown


def test_no_color_is_respected_in_a_terminal(gateway: FakeGateway) -> None:
    gateway.answer = {"answer": "# Restart `it`", "mode": "full", "sources": []}
    assert "\x1b[32m" not in in_terminal("ask", "why", NO_COLOR="1")
    assert "\x1b[1;32mfull" in in_terminal("ask", "why")


def test_a_reader_that_leaves_early_gets_no_traceback(gateway: FakeGateway) -> None:
    gateway.users = {f"user-{number:06}": {"id": f"user-{number:06}"} for number in range(20_000)}
    with subprocess.Popen([*COMMAND, "users", "ls"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"user-000000")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=20) == 141


def test_an_encoding_without_the_character_does_not_end_the_command(gateway: FakeGateway) -> None:
    gateway.answer = {"answer": "漢 → x", "mode": "full", "sources": []}
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*COMMAND, "ask", "why"], capture_output=True, env=environment, check=True)
    assert done.stdout.startswith(b"\\u6f22 \\u2192 x\n")


def in_terminal(*arguments: str, **environment: str) -> str:
    """What `cairn ARGUMENTS` writes to a terminal."""
    ours, theirs = pty.openpty()
    env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    env |= {"TERM": "xterm-256color", **environment}
    with subprocess.Popen([*COMMAND, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # Linux: the other end is closed
                break
            if not piece:
                break
            shown += piece
        os.close(ours)
        process.wait(timeout=20)
    return shown.decode()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("arguments", [("users", "ls"), ("users", "ls", "--json")])
def test_a_full_device_is_one_line(gateway: FakeGateway, arguments: tuple[str, ...]) -> None:
    gateway.users["u"] = {"id": "u", "name": "U", "role": "reader"}
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [*COMMAND, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert ended.returncode == 2
    assert ended.stderr.decode().splitlines() == ["cairn: the output cannot be written: no space left on device"]


@pytest.mark.parametrize(
    ("field", "typed"),
    [
        ("filters.since", "--since"),
        ("path.event_id", "EVENT_ID"),
        ("source", "source"),
        ("items.0.path", "items.0.path"),
    ],
)
def test_a_refused_field_is_named_as_it_was_typed(field: str, typed: str) -> None:
    assert as_typed(field) == typed
