"""`cairn status`, `verify` and `indexes`: what they show, and when they end with 1."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import Result

from cairn_gateway.cli.commands import events, operations
from cairn_gateway.cli.exits import ExitCode

if TYPE_CHECKING:
    from gateway.tests.cli.conftest import FakeGateway, Reply

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


EVENT: dict[str, Any] = {
    "event_id": "e1", "state": "searchable", "settled_at": "2026-05-01T02:00:00Z", "kind": "commit",
    "source": "github", "topic": "cairn.events.v1", "title": "Fix\tthe disk", "subject": "abc", "detail": None,
}  # fmt: skip


def test_events_tail_shows_what_came_in(gateway: FakeGateway, cairn: Run, reply: type[Reply]) -> None:
    other = EVENT | {"event_id": "e2", "source": "jira", "state": "dead", "title": None, "detail": "no text"}
    gateway.replies["GET", "/events"] = reply(200, {"events": [EVENT, other]})
    result = cairn("events", "tail", "-F", "-n", "7")
    assert gateway.requests[-1].query == {"limit": "7"}
    assert result.stdout.splitlines() == [
        "2026-05-01T02:00:00Z\tsearchable\tcommit\tgithub\tFix the disk",
        "2026-05-01T02:00:00Z\tdead\tcommit\tjira\tabc\tno text",
    ]
    assert [
        json.loads(line) for line in cairn("events", "tail", "-F", "--source", "jira", "--json").stdout.splitlines()
    ] == [other]
    nothing = cairn("events", "tail", "-F", "--kind", "alert")
    assert (nothing.exit_code, nothing.stdout) == (1, "")


def test_events_tail_follows_and_shows_none_twice(
    gateway: FakeGateway, cairn: Run, reply: type[Reply], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "INTERVAL", 0.0)
    later = EVENT | {"event_id": "e2", "settled_at": "2026-05-01T02:00:09Z"}
    pages = [[EVENT], [EVENT, later], [later]]
    gateway.script(*(reply(200, {"events": page}) for page in pages))
    gateway.refuse("GET", "/events", 403, "it needs the role reader")
    result = cairn("events", "tail")
    assert result.exit_code == ExitCode.NOT_ALLOWED
    assert [line.split("\t")[0] for line in result.stdout.splitlines()] == [EVENT["settled_at"], later["settled_at"]]
    assert gateway.requests[2].query["since"] == "2026-05-01T02:00:04+00:00"


def test_ingest_watch_waits_for_the_end(
    gateway: FakeGateway, cairn: Run, reply: type[Reply], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "WATCH_INTERVAL", 0.0)
    states = ("accepted", "published", "searchable")
    gateway.script(*(reply(200, {"state": state, "event_id": "e1"}) for state in states))
    result = cairn("ingest", "watch", "e1")
    assert result.exit_code == 0
    assert "searchable" in result.stdout
    gateway.replies["GET", "/ingest/e1"] = reply(200, {"state": "published"})
    late = cairn("ingest", "watch", "e1", "--limit", "0.1")
    assert late.exit_code == 1
    assert "only published" in late.stderr
    assert cairn("ingest", "watch", "e1", "e2").exit_code == ExitCode.USAGE


def test_stats_show_figures_and_end_with_1_without_any(gateway: FakeGateway, cairn: Run, reply: type[Reply]) -> None:
    how = {"executions": 3, "worked": 2, "failed": 1, "skipped": 0, "last_used": "2026-05-01T02:00:00Z"}
    step = how | {"step": 2}
    redis = how | {"runbook_id": "redis", "title": "Redis", "cited": 4, "steps": [step], "success_rate": 0.66}
    gateway.replies["GET", "/stats/runbooks"] = reply(200, {"runbooks": [redis]})
    expected = "Redis\t{}\t3\t2\t1\t0\t2026-05-01T02:00:00Z\t4\n"
    assert cairn("stats", "runbooks").stdout == expected.format("")
    assert "runbook_id" not in gateway.requests[-1].query
    assert cairn("stats", "runbooks", "--runbook", "redis", "--days", "3").stdout == expected.format(2)
    assert gateway.requests[-1].query == {"days": "3.0", "runbook_id": "redis"}
    page = {"runbook_id": "redis", "title": "Redis", "updated_at": "2026-05-01T02:00:00Z"}
    found = {"runbooks": 9, "never_cited": [page] * 30, "never_used": [], "stale": [], "empty": [page]}
    gateway.replies["GET", "/stats/coverage"] = reply(200, found)
    lines = cairn("stats", "coverage").stdout.splitlines()
    assert lines[:4] == ["9 runbooks", "", "1 without steps", "  redis\tRedis"]
    assert lines[-1] == "  and 10 more (--json)"
    days = [{"day": "2026-05-01", "mode": mode, "count": n} for mode, n in (("full", 3), ("refused", 1))]
    figures = {"days": [*days, days[0] | {"day": "2026-05-02"}], "most_asked": [{"question": "why?", "count": 4}]}
    gateway.replies["GET", "/stats/questions"] = reply(200, figures)
    assert cairn("stats", "questions").stdout.splitlines() == ["2026-05-01\t3\t1", "2026-05-02\t3\t0", "4\twhy?"]
    gateway.replies["GET", "/stats/ingest"] = reply(200, {"counts": []})
    assert cairn("stats", "ingest").exit_code == 1
