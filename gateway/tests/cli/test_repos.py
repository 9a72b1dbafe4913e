"""`cairn repos` and `cairn sync`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from typer.testing import Result

if TYPE_CHECKING:
    from gateway.tests.cli.conftest import FakeGateway

Run = Callable[..., Result]
URL = "https://git.example.com/team/books"


def test_a_declared_repository_shows_the_webhook_to_enter(gateway: FakeGateway, cairn: Run, tmp_path: Path) -> None:
    (tmp_path / ".cairn").mkdir()
    (tmp_path / ".cairn" / "env").write_text(f"CAIRN_URL={gateway.url}\nGITHUB_WEBHOOK_SECRET=abc123\n")
    result = cairn("repos", "add", "books", URL, "--branch", "dev", "--include", "a/*.md", "--include", "b/*.md")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        f"webhook       {gateway.url}/webhooks/github",
        "events        push",
        "content type  application/json",
        "secret        abc123",
    ]
    assert gateway.requests[0].json() == {
        "name": "books", "url": URL, "branch": "dev", "provider": "auto", "include": ["a/*.md", "b/*.md"],
    }  # fmt: skip


def test_a_secret_that_is_not_here_is_named(gateway: FakeGateway, cairn: Run) -> None:
    assert "what the gateway has as GITHUB_WEBHOOK_SECRET" in cairn("repos", "add", "books", URL).stdout


def test_a_local_repository_has_no_webhook(gateway: FakeGateway, cairn: Run) -> None:
    assert "no webhook" in cairn("repos", "add", "books", "file:///srv/books").stdout


def test_repositories_are_listed_shown_and_removed(gateway: FakeGateway, cairn: Run) -> None:
    assert cairn("repos", "ls").exit_code == 1
    cairn("repos", "add", "books", URL)
    assert cairn("repos", "ls").stdout == f"books\t{URL}\tmain\t3\t1\t2026-01-11T02:14:00Z\t\n"
    shown = cairn("repos", "show", "books").stdout
    assert "commit     0123456789abcdef" in shown
    assert "x.md\tempty" in shown
    assert json.loads(cairn("repos", "show", "books", "--json").stdout)["name"] == "books"
    assert cairn("repos", "rm", "books", "--keep").stdout == "books removed, its runbooks stay\n"
    assert gateway.requests[-1].query == {"keep": "true"}
    assert cairn("repos", "rm", "books").exit_code == 1


def test_a_sync_is_asked_for_all_or_some(gateway: FakeGateway, cairn: Run) -> None:
    assert cairn("sync").exit_code == 1
    for name in ("a", "b"):
        cairn("repos", "add", name, URL)
    assert len(json.loads(cairn("sync", "--json").stdout)["asked"]) == 2
    assert cairn("sync", "b").stdout.startswith("b is being synced, event ")
    assert cairn("sync", "c").exit_code == 1


def test_a_sync_can_be_waited_for(gateway: FakeGateway, cairn: Run) -> None:
    cairn("repos", "add", "books", URL)
    result = cairn("sync", "books", "--wait")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        "books: 3 files at 0123456789, 2 written, 1 deleted",
        "x.md\tempty",
        "y.md\tfront matter: tags is a mapping, so it is left out",
    ]


def test_a_sync_that_failed_ends_with_1(gateway: FakeGateway, cairn: Run) -> None:
    gateway.sync_error = "the host cannot be reached"
    cairn("repos", "add", "books", URL)
    result = cairn("sync", "--wait")
    assert result.exit_code == 1
    assert "books: the host cannot be reached" in result.stdout
    assert "not synced: books" in result.stderr
