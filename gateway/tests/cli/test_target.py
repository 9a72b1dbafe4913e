"""Where the command line finds Cairn, and what it refuses to trust."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cairn_gateway.cli.exits import UsageError
from cairn_gateway.cli.target import DEFAULT_URL, find_target, parse_env

STACK = "CAIRN_URL=http://127.0.0.1:8123\nCAIRN_API_KEY=local-key\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose stack runs; its `.cairn/env` is as `make run` writes it."""
    write_env(tmp_path, STACK)
    (tmp_path / "docs" / "deep").mkdir(parents=True)
    return tmp_path


def write_env(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / ".cairn" / "env"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_the_default_is_this_machine_without_a_key(tmp_path: Path) -> None:
    target = find_target({}, tmp_path)
    assert (target.url, target.key, target.warnings) == (DEFAULT_URL, None, ())


@pytest.mark.parametrize("below", [".", "docs", "docs/deep"])
def test_the_stack_is_found_from_anywhere_in_the_checkout(checkout: Path, below: str) -> None:
    target = find_target({}, checkout / below)
    assert (target.url, target.key) == ("http://127.0.0.1:8123", "local-key")


def test_the_nearest_stack_wins(checkout: Path) -> None:
    write_env(checkout / "docs", "CAIRN_URL=http://127.0.0.1:9000\n")
    target = find_target({}, checkout / "docs" / "deep")
    assert (target.url, target.key) == ("http://127.0.0.1:9000", None)


def test_a_named_home_is_the_only_place_to_look(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("home")
    (elsewhere / "env").write_text("CAIRN_API_KEY=other\n")
    assert find_target({"CAIRN_HOME": str(elsewhere)}, checkout).key == "other"
    assert find_target({"CAIRN_HOME": ".cairn"}, checkout).key == "local-key"
    assert find_target({"CAIRN_HOME": "nowhere"}, checkout).url == DEFAULT_URL


def test_the_environment_overrides_the_file(checkout: Path) -> None:
    target = find_target({"CAIRN_URL": "https://cairn.example.com/", "CAIRN_API_KEY": "mine"}, checkout)
    assert (target.url, target.key) == ("https://cairn.example.com", "mine")


def test_the_stored_key_is_not_sent_to_another_address(checkout: Path) -> None:
    assert find_target({"CAIRN_URL": "https://elsewhere.example.com"}, checkout).key is None


def test_a_stored_key_without_an_address_is_for_this_machine(tmp_path: Path) -> None:
    write_env(tmp_path, "CAIRN_API_KEY=local-key\n")
    assert find_target({"CAIRN_URL": "https://elsewhere.example.com"}, tmp_path).key is None
    assert find_target({}, tmp_path).key == "local-key"


def test_the_stored_key_is_used_when_the_environment_names_the_same_address(checkout: Path) -> None:
    assert find_target({"CAIRN_URL": "http://127.0.0.1:8123/"}, checkout).key == "local-key"


def test_an_empty_variable_counts_as_unset(checkout: Path) -> None:
    assert find_target({"CAIRN_URL": "", "CAIRN_API_KEY": ""}, checkout).key == "local-key"


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_may_write_is_ignored_with_a_warning(tmp_path: Path, mode: int) -> None:
    write_env(tmp_path, STACK, mode)
    target = find_target({}, tmp_path)
    assert target.url == DEFAULT_URL
    assert "others may write it" in target.warnings[0]


def test_a_file_of_another_user_is_ignored_with_a_warning(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = (checkout / ".cairn" / "env").stat().st_uid
    if owner == 0:
        os.chown(checkout / ".cairn" / "env", 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    target = find_target({}, checkout)
    assert target.key is None
    assert "another user" in target.warnings[0]


def test_a_folder_in_the_file_s_place_is_ignored_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / ".cairn" / "env").mkdir(parents=True)
    assert "not a regular file" in find_target({}, tmp_path).warnings[0]


def test_a_file_that_is_no_text_is_ignored_with_a_warning(tmp_path: Path) -> None:
    write_env(tmp_path, "").write_bytes(b"CAIRN_URL=\xff\n")
    target = find_target({}, tmp_path)
    assert target.url == DEFAULT_URL
    assert "not UTF-8" in target.warnings[0]


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host", "http://", "http://host:port", "http://[::1"])
def test_an_address_that_is_none_is_refused_by_name(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError, match="CAIRN_URL"):
        find_target({"CAIRN_URL": url}, tmp_path)


@pytest.mark.parametrize("key", ["two words", "kéy", "line\nfeed"])
def test_a_key_that_cannot_be_one_is_refused_without_showing_it(tmp_path: Path, key: str) -> None:
    with pytest.raises(UsageError) as refused:
        find_target({"CAIRN_API_KEY": key}, tmp_path)
    assert "CAIRN_API_KEY" in refused.value.message
    assert key not in refused.value.message


def test_the_key_is_not_shown_by_repr(checkout: Path) -> None:
    assert "local-key" not in repr(find_target({}, checkout))


@pytest.mark.parametrize(
    ("url", "local"),
    [("http://127.0.0.1:1", True), ("http://localhost", True), ("http://[::1]:8", True), ("http://cairn.dev", False)],
)
def test_local_addresses_are_told_from_others(tmp_path: Path, url: str, local: bool) -> None:
    assert find_target({"CAIRN_URL": url}, tmp_path).local is local


def test_env_lines_may_have_comments_export_and_quotes() -> None:
    text = "# stack\n\nexport A=1\nB='two words'\nC = \"x=y\" \nD=\nnonsense\n#E=5\n"
    assert parse_env(text) == {"A": "1", "B": "two words", "C": "x=y", "D": ""}


@pytest.mark.parametrize(
    ("phase", "pid", "runs"),
    [("running", os.getpid(), True), ("stopped", os.getpid(), False), ("running", 0x7FFFFFF0, False)],
    ids=["running", "stopped", "its process is gone"],
)
def test_a_stack_runs_while_its_supervisor_lives(checkout: Path, phase: str, pid: int, runs: bool) -> None:
    (checkout / ".cairn" / "state.json").write_text(json.dumps({"phase": phase, "pid": pid, "processes": {}}))
    assert find_target({}, checkout).stack_runs() is runs
    assert find_target({"CAIRN_URL": "http://elsewhere.example"}, checkout).stack_runs() is False


def test_without_a_state_no_stack_runs(checkout: Path) -> None:
    assert find_target({}, checkout).stack_runs() is False
