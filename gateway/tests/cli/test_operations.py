"""`cairn status`, `verify` and `indexes`: what they show, and when they end with 1."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import Result

from cairn_gateway.cli.commands import operations

if TYPE_CHECKING:
    from gateway.tests.cli.conftest import FakeGateway

Run = Callable[..., Result]
QUEUE = {"pending": 3, "unsettled": 4, "refused": 1, "oldest_seconds": 12.34}
STATUS: dict[str, Any] = {
    "status": "ok",
    "version": "0.1.0",
    "dependencies": {"mongo": "ok", "retriever": "ok"},
    "index": {
        "documents": {"runbook": 30, "commit": 2}, "steps": 250, "chunks": 300, "epoch": 7, "fingerprint": "minilm-1",
        "last_indexed_at": "2026-01-11T02:14:00Z", "details": {},
    },
    "runbooks": 30,
    "queues": {"outbox": QUEUE, "inbox": QUEUE | {"pending": 0, "refused": 0}},
}  # fmt: skip
STALE = {"stale": [{"runbook_id": "a", "revision": 4, "indexed_version": 3}]}


def test_status_shows_parts_index_and_what_waits(gateway: FakeGateway, cairn: Run) -> None:
    gateway.status = STATUS
    result = cairn("status")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        f"Cairn 0.1.0 at {gateway.url}: ok",
        "  mongo       ok",
        "  retriever   ok",
        "runbooks      30",
        "indexed       30 runbook, 2 commit",
        "steps         250",
        "chunks        300",
        "last indexed  2026-01-11T02:14:00Z",
        "model         minilm-1",
        "outbox        3 waiting for up to 12.3 s, 1 refused",
        "inbox         0 waiting",
    ]
    assert json.loads(cairn("status", "--json").stdout) == STATUS


def test_status_shows_how_far_a_new_embedding_model_is(gateway: FakeGateway, cairn: Run) -> None:
    spaces = [
        {"fingerprint": "minilm-1", "state": "active", "chunks": 300, "problem": None},
        {"fingerprint": "jina-2", "state": "building", "chunks": 120, "problem": "the embedder refuses 1"},
        {"fingerprint": "older-0", "state": "retired", "chunks": 290, "problem": None},
    ]
    gateway.status = STATUS | {"index": STATUS["index"] | {"details": {"embedding_spaces": spaces}}}
    lines = cairn("status").stdout.splitlines()
    assert "next model    jina-2, 120 of 300 chunks, the embedder refuses 1" in lines
    assert not [line for line in lines if "older-0" in line]


def test_a_part_that_is_down_is_named_and_ends_with_1(gateway: FakeGateway, cairn: Run) -> None:
    down = {"status": "degraded", "dependencies": {"mongo": "ok", "retriever": "timed out"}}
    gateway.status = STATUS | down | {"index": None, "queues": None, "runbooks": None}
    result = cairn("status")
    assert result.exit_code == 1
    assert "  retriever   timed out" in result.stdout
    assert "degraded: retriever" in result.stderr
    assert cairn("status", "--json").exit_code == 1


def test_verify_without_a_difference_ends_with_0(gateway: FakeGateway, cairn: Run) -> None:
    result = cairn("verify")
    assert result.exit_code == 0
    assert result.stdout == "3 runbooks, 2 in the index: no difference\n"
    assert json.loads(cairn("verify", "--json").stdout)["ok"] is True


def test_a_difference_is_listed_and_ends_with_1(gateway: FakeGateway, cairn: Run) -> None:
    gateway.differences = [STALE]
    result = cairn("verify")
    assert result.exit_code == 1
    assert result.stdout == "3 runbooks, 2 in the index: 1 stale\nstale\ta\t4\t3\n"
    assert "1 stale" in result.stderr
    assert "--repair" in result.stderr


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "VERIFY_INTERVAL", 0.01)


@pytest.mark.usefixtures("_hasty")
def test_a_repair_is_compared_again_until_it_has_worked(gateway: FakeGateway, cairn: Run) -> None:
    gateway.differences = [STALE, STALE, {}]
    result = cairn("verify", "--repair")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "after 1 repairs: no difference"
    assert [seen.json()["repair"] for seen in gateway.requests] == [True, False, False]


@pytest.mark.usefixtures("_hasty")
def test_vectors_are_compared_before_and_after_a_repair_where_that_is_asked(gateway: FakeGateway, cairn: Run) -> None:
    gateway.differences = [STALE, {}]
    assert cairn("verify", "--repair", "--vectors").exit_code == 0
    assert [seen.json()["vectors"] for seen in gateway.requests] == [True, True]
    gateway.differences = [STALE]
    assert "`cairn verify --vectors --repair`" in cairn("verify", "--vectors").stderr
    assert cairn("verify", "--vectors", "--repo", "r").exit_code == 2


@pytest.mark.usefixtures("_hasty")
def test_a_repair_that_does_not_work_ends_with_1(gateway: FakeGateway, cairn: Run) -> None:
    gateway.differences = [STALE]
    result = cairn("verify", "--repair", "--repair-limit", "1", "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert (report["repaired"], report["after"]["ok"]) == (["a"], False)


def test_nothing_is_compared_again_when_nothing_was_repaired(gateway: FakeGateway, cairn: Run) -> None:
    assert cairn("verify", "--repair").exit_code == 0
    assert len(gateway.requests) == 1


def test_indexes_show_each_query_s_index_and_a_missing_one_ends_with_1(gateway: FakeGateway, cairn: Run) -> None:
    plan = {
        "name": "by service", "collection": "runbooks", "index": "service_1", "keys_examined": 5, "documents_examined": 4,
        "returned": 4, "filter": {}, "sort": {}, "stages": [],
    }  # fmt: skip
    gateway.plans = [plan]
    result = cairn("indexes")
    assert (result.exit_code, result.stdout) == (0, "runbooks\tby service\tservice_1\t5\t4\t4\n")
    gateway.plans = [plan, plan | {"name": "by tag", "index": None}]
    result = cairn("indexes")
    assert result.exit_code == 1
    assert "without an index: by tag" in result.stderr
