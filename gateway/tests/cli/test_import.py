"""`cairn import` and `cairn seed`: what is loaded, what is refused, what is waited for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import Result

from cairn_gateway.cli import importing

if TYPE_CHECKING:
    from gateway.tests.cli.conftest import FakeGateway, Reply

Run = Callable[..., Result]
UNAVAILABLE = {"status": 503, "detail": "mongo cannot be reached"}


def write(root: Path, *paths: str, text: str = "# {path}\n\n1. Look.\n") -> None:
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.format(path=path))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "books"
    write(root, "a.md", "b/c.markdown", "b/d.md")
    (root / "empty.md").write_text("")
    (root / "latin.md").write_bytes(b"# Caf\xe9\n")
    return root


def test_every_file_is_loaded_or_listed_with_its_reason(gateway: FakeGateway, cairn: Run, folder: Path) -> None:
    result = cairn("import", str(folder))
    assert result.exit_code == 0, result.stderr
    assert "5 files: 3 created, 0 changed, 0 unchanged, 2 rejected" in result.stdout
    assert "empty.md\tthe page is empty" in result.stdout
    assert "latin.md\tnot UTF-8 text (byte 5 is wrong)" in result.stdout
    assert sorted(gateway.runbooks) == ["a", "b-c", "b-d"]
    assert gateway.runbooks["b-c"]["markdown"] == "# b/c.markdown\n\n1. Look.\n"


def test_what_was_left_out_of_a_file_is_said_where_its_author_sees_it(
    gateway: FakeGateway, cairn: Run, tmp_path: Path
) -> None:
    file = tmp_path / "odd.md"
    file.write_text("---\nseverity: {}\n---\n# Odd\n\n1. Look.\n")
    warning = "front matter: severity is a mapping, so it is left out"
    result = cairn("import", str(tmp_path))
    assert f"odd.md\t{warning}" in result.stdout
    assert result.exit_code == 0
    assert json.loads(cairn("import", str(tmp_path), "--json").stdout)["files"][0]["warnings"] == [warning]
    assert warning in cairn("runbooks", "put", str(file)).stderr


def test_importing_again_changes_nothing_and_an_edit_changes_one(
    gateway: FakeGateway, cairn: Run, folder: Path
) -> None:
    cairn("import", str(folder))
    assert "0 created, 0 changed, 3 unchanged" in cairn("import", str(folder)).stdout
    write(folder, "a.md", text="# other\n")
    assert "0 created, 1 changed, 2 unchanged" in cairn("import", str(folder)).stdout


def test_json_lists_every_file_and_nothing_else_is_on_stdout(gateway: FakeGateway, cairn: Run, folder: Path) -> None:
    result = cairn("import", str(folder), "--json", "--prefix", "x-", "--source", "wiki", "--wait")
    report = json.loads(result.stdout)
    assert report["counts"] == {"created": 3, "changed": 0, "unchanged": 0, "rejected": 2}
    assert [file["path"] for file in report["files"]] == ["a.md", "b/c.markdown", "b/d.md", "empty.md", "latin.md"]
    assert report["files"][0]["id"] == "x-a"
    assert report["wait"]["searchable"] == 3
    assert gateway.requests[0].json()["source"] == "wiki"


def test_strict_ends_with_3_when_a_file_was_rejected(gateway: FakeGateway, cairn: Run, folder: Path) -> None:
    assert cairn("import", str(folder), "--strict").exit_code == 3
    (folder / "empty.md").unlink()
    (folder / "latin.md").unlink()
    assert cairn("import", str(folder), "--strict").exit_code == 0


def test_many_files_go_in_batches(gateway: FakeGateway, cairn: Run, tmp_path: Path) -> None:
    write(tmp_path / "many", *(f"{number:03}.md" for number in range(120)))
    result = cairn("import", str(tmp_path / "many"))
    assert "120 created" in result.stdout
    assert [len(seen.json()["items"]) for seen in gateway.requests] == [50, 50, 20]


def test_waiting_ends_when_everything_is_searchable(gateway: FakeGateway, cairn: Run, folder: Path) -> None:
    result = cairn("import", str(folder), "--wait")
    assert result.exit_code == 0
    assert set(gateway.events.values()) == {"searchable"}
    assert "3 searchable after" in result.stdout


def test_waiting_has_an_end(gateway: FakeGateway, cairn: Run, folder: Path) -> None:
    gateway.looks = 10**6
    result = cairn("import", str(folder), "--wait", "--wait-limit", "1")
    assert result.exit_code == 1
    assert "3 events are still on their way" in result.stderr


def test_an_event_that_nobody_knows_any_more_is_not_waited_for(gateway: FakeGateway, cairn: Run, folder: Path) -> None:
    cairn("import", str(folder))
    gateway.events.clear()
    result = cairn("import", str(folder), "--wait")
    assert result.exit_code == 0
    assert "0 created, 0 changed, 3 unchanged" in result.stdout


def test_an_event_that_died_is_named(gateway: FakeGateway, cairn: Run, folder: Path) -> None:
    gateway.fate = "dead"
    result = cairn("import", str(folder), "--wait")
    assert result.exit_code == 1
    assert "3 events could not be processed" in result.stderr
    assert next(iter(gateway.events)) in result.stderr
    assert "dead letter queue" in result.stderr


def test_an_import_goes_on_after_cairn_was_away(
    gateway: FakeGateway, reply: type[Reply], cairn: Run, tmp_path: Path, quick: list[float]
) -> None:
    write(tmp_path / "many", *(f"{number:03}.md" for number in range(60)))
    gateway.script(None, reply(503, UNAVAILABLE, {"retry-after": "7"}), reply(503, UNAVAILABLE))
    result = cairn("import", str(tmp_path / "many"))
    assert result.exit_code == 0, result.stderr
    assert len(gateway.runbooks) == 60
    assert quick[0] == 7.0
    assert "mongo cannot be reached; trying again" in result.stderr


def test_an_import_goes_on_after_cairn_died_under_its_first_request(
    gateway: FakeGateway, reply: type[Reply], cairn: Run, folder: Path, quick: list[float]
) -> None:
    gateway.script(reply(0, b""))
    result = cairn("import", str(folder))
    assert result.exit_code == 0, result.stderr
    assert len(gateway.runbooks) == 3
    assert "trying again" in result.stderr


def test_a_gateway_that_is_away_from_the_start_is_waited_for_where_its_stack_runs(
    cairn: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: list[float]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("CAIRN_URL", "CAIRN_API_KEY", "CAIRN_HOME"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / ".cairn"
    home.mkdir()
    (home / "env").touch(mode=0o600)
    (home / "env").write_text("CAIRN_URL=http://127.0.0.1:9\n")
    result = cairn("import", str(folder))
    assert (result.exit_code, quick) == (4, [])
    assert "is kept" not in result.stderr, "nothing was sent"
    (home / "state.json").write_text(json.dumps({"phase": "running", "pid": os.getpid()}))
    result = cairn("import", str(folder))
    assert result.exit_code == 4
    assert importing.PATIENCE - 10 < sum(quick) <= importing.PATIENCE
    assert "trying again" in result.stderr


def test_a_file_that_is_no_markdown_is_wrong_usage(gateway: FakeGateway, cairn: Run, tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text("root:x:0:0")
    result = cairn("import", str(tmp_path / "passwd"))
    assert result.exit_code == 2
    assert "no *.md" in result.stderr
    assert gateway.requests == []


def test_a_pipe_is_refused_as_what_it_is(gateway: FakeGateway, cairn: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    assert "pipe.md\tnot a regular file" in cairn("import", str(tmp_path / "pipe.md")).stdout


def test_patience_has_an_end(gateway: FakeGateway, cairn: Run, folder: Path, quick: list[float]) -> None:
    gateway.refuse("POST", "/runbooks/import", 503, "mongo cannot be reached")
    result = cairn("import", str(folder))
    assert result.exit_code == 4
    assert importing.PATIENCE - 10 < sum(quick) <= importing.PATIENCE


def test_a_batch_that_is_too_large_is_halved_until_one_file_is_to_blame(
    gateway: FakeGateway, cairn: Run, folder: Path
) -> None:
    gateway.too_large = {"b/c.markdown"}
    report = json.loads(cairn("import", str(folder), "--json").stdout)
    rejected = {file["path"]: file["reason"] for file in report["files"] if file["status"] == "rejected"}
    assert rejected["b/c.markdown"] == "body: the body is over 10 bytes"
    assert sorted(gateway.runbooks) == ["a", "b-d"]


def test_a_file_for_which_its_whole_batch_is_refused_harms_no_other(
    gateway: FakeGateway, cairn: Run, folder: Path
) -> None:
    gateway.unacceptable = {"a.md"}
    result = cairn("import", str(folder))
    assert "a.md\titems.0.markdown: not valid text" in result.stdout
    assert sorted(gateway.runbooks) == ["b-c", "b-d"]


def test_another_refusal_of_a_batch_ends_the_import(gateway: FakeGateway, cairn: Run, folder: Path) -> None:
    gateway.refuse("POST", "/runbooks/import", 422, "may not be empty", field="source")
    result = cairn("import", str(folder))
    assert result.exit_code == 3
    assert "source: may not be empty" in result.stderr
    assert len(gateway.requests) == 1


@pytest.mark.parametrize("argument", ["nowhere", "."])
def test_a_folder_without_markdown_is_wrong_usage(gateway: FakeGateway, cairn: Run, argument: str) -> None:
    assert cairn("import", argument).exit_code == 2
    assert gateway.requests == []


@pytest.fixture
def data(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    write(root / "runbooks", "redis/a.md", "redis/b.md")
    (root / "users.json").write_text('[{"id": "user-a", "name": "A", "role": "admin"}]')
    (root / "executions.json").write_text('[{"id": "e1", "runbook_id": "redis-a", "step": 1, "user_id": "user-a"}]')
    return root


def test_seeding_loads_runbooks_users_and_executions_and_waits(gateway: FakeGateway, cairn: Run, data: Path) -> None:
    result = cairn("seed")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[:3] == [
        "runbooks: 2 created, 0 changed, 0 unchanged, 0 rejected",
        "users: 1 created, 0 changed, 0 unchanged",
        "executions: 1 created, 0 changed, 0 unchanged",
    ]
    assert sorted(gateway.runbooks) == ["redis-a", "redis-b"]
    assert gateway.users["user-a"] == {"id": "user-a", "name": "A", "role": "admin"}
    assert gateway.executions["e1"]["step"] == 1
    assert set(gateway.events.values()) == {"searchable"}


def test_seeding_again_says_unchanged(gateway: FakeGateway, cairn: Run, data: Path) -> None:
    cairn("seed")
    result = cairn("seed", "--json")
    assert json.loads(result.stdout)["counts"] == {
        "runbooks": {"created": 0, "changed": 0, "unchanged": 2, "rejected": 0},
        "users": {"created": 0, "changed": 0, "unchanged": 1},
        "executions": {"created": 0, "changed": 0, "unchanged": 1},
    }


def test_seeding_without_waiting_returns_at_once(gateway: FakeGateway, cairn: Run, data: Path) -> None:
    assert cairn("seed", "--no-wait").exit_code == 0
    assert set(gateway.events.values()) == {"queued"}


def test_the_data_folder_is_found_above_or_given(
    gateway: FakeGateway,
    cairn: Run,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    monkeypatch.chdir(data / "runbooks" / "redis")
    assert cairn("seed").exit_code == 0
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert cairn("seed").exit_code == 2
    assert cairn("seed", "--data", str(data)).exit_code == 0


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '[{"name": "no id"}]'])
def test_records_that_are_none_are_refused_before_anything_is_sent(
    gateway: FakeGateway, cairn: Run, data: Path, text: str
) -> None:
    (data / "users.json").write_text(text)
    result = cairn("seed")
    assert result.exit_code == 2
    assert "users.json" in result.stderr
    assert gateway.requests == []


def test_a_record_that_cairn_refuses_ends_with_its_field(gateway: FakeGateway, cairn: Run, data: Path) -> None:
    gateway.refuse("PUT", "/users/user-a", 422, "must be one of reader, editor", field="role")
    result = cairn("seed")
    assert result.exit_code == 3
    assert "role: must be one of reader, editor" in result.stderr
