"""Questions, searches, runbooks and operations, as a script sees them: in a pipe."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import Result

if TYPE_CHECKING:
    from gateway.tests.cli.conftest import FakeGateway, Reply

Run = Callable[..., Result]

SOURCE = {
    "runbook_id": "redis-down", "title": "Redis down [urgent]", "step": 2, "label": "2", "section": "Steps", "path": "redis/down.md",
    "lines": [12, 20], "commit": "0123456789abcdef", "cited": True, "score": 0.8123, "commands": [
        {"text": "redis-cli ping", "safety": "read-only"},
        {"text": "SELECT 1,\n  2;", "safety": "read-only"},
        {"text": "redis-cli -h <host> shutdown", "safety": "destructive", "unfilled": ["<host>"]},
    ],
}  # fmt: skip
ANSWER: dict[str, Any] = {
    "answer": "Restart it. [Redis down [urgent], Step 2]",
    "mode": "excerpts",
    "degraded": True,
    "degraded_reason": "llm_not_configured",
    "sources": [SOURCE | {"runbook_id": "other", "cited": False, "commands": []}, SOURCE],
    "freshness": {"pending": [{"runbook_id": "redis-down", "indexed_revision": 3, "latest_revision": 4}]},
    "timings": {"total_ms": 250.0},
}
CLAIM = {
    "text": "Restart it.",
    "citations": [{"runbook_id": "redis-down", "title": "Redis down", "step": 2, "marker": "[Redis down, Step 2]"}],
}
HIT = {
    "kind": "runbook", "runbook_id": "redis-down", "title": "Redis down", "path": "redis/down.md", "line_start": 12, "line_end": 20,
    "step": 2, "score": 0.5, "text": "Restart\nit " + "x" * 300, "features": {"cosine": 0.71234567, "identifiers": ["E1"]},
}  # fmt: skip


def last_body(gateway: FakeGateway) -> Any:
    return gateway.requests[-1].json()


def test_an_answer_is_shown_with_its_mode_sources_and_commands(gateway: FakeGateway, cairn: Run) -> None:
    gateway.answer = ANSWER
    result = cairn("ask", "why", "is", "Redis", "down?")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        "Restart it. [Redis down [urgent], Step 2]",
        "",
        "mode excerpts, degraded: llm not configured, 0.250 s",
        "cited\tredis-down\t2\tRedis down [urgent]\tredis/down.md:12-20\t0123456789\t0.812",
        "\tother\t2\tRedis down [urgent]\tredis/down.md:12-20\t0123456789\t0.812",
        "",
        "Commands of Redis down [urgent]",
        "  2  read-only      redis-cli ping",
        "  2  read-only      SELECT 1,",
        "                      2;",
        "  2  destructive    redis-cli -h <host> shutdown   fill in: <host>",
        "redis-down: answered from revision 3, revision 4 is on its way",
    ]
    assert last_body(gateway) == {"question": "why is Redis down?"}


def test_ask_json_is_the_response_itself(gateway: FakeGateway, cairn: Run, reply: type[Reply]) -> None:
    body = b'{"answer":"\xc3\xbc [x]",  "mode":"full", "sources":[]}'
    gateway.script(reply(200, body))
    result = cairn("ask", "--json", "why?")
    assert result.stdout_bytes == body + b"\n"
    assert result.stderr == ""


def test_a_refusal_ends_with_1_and_is_shown(gateway: FakeGateway, cairn: Run) -> None:
    result = cairn("ask", "who won?")
    assert result.exit_code == 1
    assert result.stdout.startswith("I don't have a runbook covering that\n")
    assert "nearest" not in result.stdout
    gateway.answer["nearest"] = [{"runbook_id": "redis-down", "title": "Redis down [urgent]"}]
    told = cairn("ask", "who won?").stdout
    assert "nearest runbooks, judged not to answer this:\n  Redis down [urgent] (redis-down)\n" in told
    as_json = cairn("ask", "--json", "who won?")
    assert as_json.exit_code == 1
    assert json.loads(as_json.stdout)["mode"] == "refused"


def test_an_answer_that_cannot_be_made_now_ends_with_4(gateway: FakeGateway, cairn: Run) -> None:
    gateway.answer = {"answer": "", "mode": "unavailable", "degraded_reason": "the retriever is away", "sources": []}
    result = cairn("ask", "why?")
    assert result.exit_code == 4
    assert "the retriever is away" in result.stderr


def test_the_question_can_come_from_stdin(gateway: FakeGateway, cairn: Run) -> None:
    gateway.answer = ANSWER
    cairn("ask", "-k", "3", "-", stdin="Why ü?\n")
    assert last_body(gateway) == {"question": "Why ü?\n", "k": 3}


def test_the_alert_can_come_from_a_file_or_stdin_and_makes_the_question(
    gateway: FakeGateway, cairn: Run, tmp_path: Path
) -> None:
    alert = {"labels": {"alertname": "RedisDown"}, "annotations": {"summary": "it is down"}}
    (tmp_path / "alert.json").write_text(json.dumps(alert))
    cairn("ask", "--alert", "alert.json")
    expected = {"name": "RedisDown", **alert}
    assert last_body(gateway) == {"question": "RedisDown: it is down", "alert": expected}
    cairn("ask", "what first?", "--alert", "-", stdin=json.dumps(alert))
    assert last_body(gateway) == {"question": "what first?", "alert": expected}
    webhook = {"commonLabels": {"namespace": "prod"}, "alerts": [{"status": "resolved", "labels": {}}, alert]}
    cairn("ask", "what first?", "--alert", "-", stdin=json.dumps(webhook))
    assert last_body(gateway)["alert"]["labels"] == {"namespace": "prod", "alertname": "RedisDown"}


@pytest.mark.parametrize(
    ("arguments", "stdin", "code"),
    [
        (["ask"], None, 2),
        (["ask", "  "], None, 2),
        (["ask", "-"], "", 2),
        (["ask", "-"], b"\xff", 3),
        (["ask", "-", "--alert", "-"], "{}", 2),
        (["ask", "--alert", "missing.json"], None, 2),
        (["ask", "--alert", "-"], "{", 3),
        (["ask", "x", "-k", "0"], None, 2),
        (["search", " "], None, 2),
        (["search", "x", "--kind", "poem"], None, 2),
        (["nonsense"], None, 2),
        (["runbooks", "show", ".."], None, 2),
        (["runbooks", "put", "-"], "# x", 2),
    ],
)
def test_wrong_input_is_refused_before_anything_is_sent(
    gateway: FakeGateway, cairn: Run, arguments: list[str], stdin: str | bytes | None, code: int
) -> None:
    result = cairn(*arguments, stdin=stdin)
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr
    assert gateway.requests == []


def test_a_streamed_answer_is_shown_claim_by_claim(gateway: FakeGateway, cairn: Run) -> None:
    gateway.stream = [("sources", {"sources": [SOURCE]}), ("claim", CLAIM), ("done", ANSWER | {"claims": [CLAIM]})]
    result = cairn("ask", "--stream", "why?")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[:3] == ["**[Redis down, Step 2]**", "", "Restart it."]
    assert "mode excerpts, degraded: llm not configured, 0.250 s" in lines
    assert ANSWER["answer"] not in lines
    assert "answering from 1 steps" in result.stderr


def test_a_stream_without_claims_shows_the_answer(gateway: FakeGateway, cairn: Run) -> None:
    gateway.stream = [("sources", {"sources": [SOURCE]}), ("done", ANSWER)]
    assert cairn("ask", "--stream", "why?").stdout.startswith(ANSWER["answer"])


def test_a_part_that_belongs_before_what_was_shown_comes_with_the_whole(gateway: FakeGateway, cairn: Run) -> None:
    first = {**CLAIM, "text": "Look at it."}
    gateway.stream = [("claim", CLAIM), ("done", ANSWER | {"claims": [first, CLAIM]})]
    lines = cairn("ask", "--stream", "why?").stdout.splitlines()
    again = lines.index("(The whole answer, in the order of its runbook:)")
    assert "Restart it." in lines[:again]
    assert lines[again:].index("Look at it.") < lines[again:].index("Restart it.")


def test_a_final_answer_that_differs_from_what_was_shown_is_shown(gateway: FakeGateway, cairn: Run) -> None:
    gateway.stream = [("claim", CLAIM), ("done", ANSWER | {"claims": []})]
    assert ANSWER["answer"] in cairn("ask", "--stream", "why?").stdout.splitlines()


def test_a_streamed_answer_as_json_is_one_line_per_event(gateway: FakeGateway, cairn: Run) -> None:
    gateway.stream = [("sources", {"sources": [SOURCE]}), ("done", ANSWER)]
    lines = cairn("ask", "--stream", "--json", "why?").stdout.splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["sources", "done"]
    assert json.loads(lines[1])["data"] == ANSWER


def test_a_stream_is_read_by_the_standard_s_rules(gateway: FakeGateway, cairn: Run, reply: type[Reply]) -> None:
    done = json.dumps(ANSWER, indent=1).replace("\n", "\ndata: ")
    written = f"\ufeff: hello\r\n\r\nevent: lost\r\n\r\nid: 7\nretry: 5\nevent: done\ndata: {done}\r\n\r\n"
    gateway.script(reply(200, written.encode(), {"content-type": "text/event-stream"}))
    lines = cairn("ask", "--stream", "--json", "why?").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [{"event": "done", "data": ANSWER}]


def test_a_stream_that_breaks_off_ends_with_4(gateway: FakeGateway, cairn: Run) -> None:
    gateway.stream = [("sources", {"sources": [SOURCE]})]
    assert cairn("ask", "--stream", "why?").exit_code == 4


def test_a_refused_stream_says_why(gateway: FakeGateway, cairn: Run) -> None:
    gateway.refuse("POST", "/ask", 422, "too long", field="question")
    result = cairn("ask", "--stream", "why?")
    assert result.exit_code == 3
    assert "question: too long" in result.stderr


def test_search_prints_a_line_per_hit(gateway: FakeGateway, cairn: Run) -> None:
    gateway.results = [HIT, HIT | {"kind": "alert", "path": None, "url": "https://x.example.com"}]
    result = cairn(
        "search", "redis", "down", "--kind", "event", "-k", "5", "--mode", "keyword", "--fusion", "rrf", "--explain"
    )
    assert result.exit_code == 0, result.stderr
    first, second = result.stdout.splitlines()
    assert first.split("\t")[:6] == ["0.500", "runbook", "redis-down", "2", "Redis down", "redis/down.md:12-20"]
    assert first.split("\t")[6].startswith("Restart it xxx")
    assert second.split("\t")[3:6] == ["", "Redis down", "https://x.example.com"]
    assert 'cosine=0.7123 identifiers=["E1"]' in result.stderr
    assert last_body(gateway) == {
        "query": "redis down", "k": 5, "mode": "keyword", "fusion": "rrf", "explain": True, "filters": {"kind": "event"},
    }  # fmt: skip


def test_search_json_is_the_response_itself(gateway: FakeGateway, cairn: Run) -> None:
    gateway.results = [HIT]
    result = cairn("search", "--json", "redis")
    assert json.loads(result.stdout) == {"results": [HIT], "mode": "hybrid", "degraded": []}


def test_no_hit_ends_with_1(gateway: FakeGateway, cairn: Run) -> None:
    result = cairn("search", "--json", "redis")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["results"] == []


def test_runbooks_are_put_listed_shown_and_removed(gateway: FakeGateway, cairn: Run, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.md").write_text(f"# Title {name}\n")
        assert cairn("runbooks", "put", f"{name}.md").stdout == f"{name} revision 1 created, 1 steps\n"
    assert cairn("runbooks", "put", "-", "--id", "a", stdin="# Other\n").stdout == "a revision 2 changed, 1 steps\n"
    assert [line.split("\t")[:2] for line in cairn("runbooks", "ls").stdout.splitlines()] == [
        ["a", "Other"], ["b", "Title b"], ["c", "Title c"],
    ]  # fmt: skip
    assert len(json.loads(cairn("runbooks", "ls", "--json").stdout)["runbooks"]) == 3
    assert cairn("runbooks", "show", "a", "--markdown").stdout == "# Other\n"
    assert json.loads(cairn("runbooks", "show", "a", "--json").stdout)["revision"] == 2
    assert "Step 1 · Steps\n# Other\n" in cairn("runbooks", "show", "a").stdout
    assert cairn("runbooks", "rm", "a", "b").stdout == "a removed at revision 3\nb removed at revision 2\n"
    gone = cairn("runbooks", "rm", "a", "c")
    assert (gone.exit_code, gone.stdout) == (1, "c removed at revision 2\n")
    assert "there is no runbook a" in gone.stderr
    assert cairn("runbooks", "ls").exit_code == 1


def test_the_filters_of_a_list_are_sent(gateway: FakeGateway, cairn: Run) -> None:
    cairn("runbooks", "ls", "--service", "redis", "--tag", "wal", "--q", "lag")
    assert gateway.requests[-1].query == {"service": "redis", "tag": "wal", "q": "lag", "limit": "500"}


def test_a_put_over_somebody_else_s_change_ends_with_3(gateway: FakeGateway, cairn: Run, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n")
    cairn("runbooks", "put", "a.md")
    assert cairn("runbooks", "put", "a.md", "--if-revision", "1").exit_code == 0
    result = cairn("runbooks", "put", "a.md", "--if-revision", "7")
    assert result.exit_code == 3
    assert "another revision" in result.stderr
    assert "exists already" in cairn("runbooks", "put", "a.md", "--if-revision", "0").stderr


def test_a_put_and_a_removal_can_be_waited_for(gateway: FakeGateway, cairn: Run, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n")
    assert "1 searchable after" in cairn("runbooks", "put", "a.md", "--path", "x/a.md", "--wait").stdout
    assert gateway.runbooks["a"]["path"] == "x/a.md"
    assert cairn("runbooks", "rm", "a", "--wait").exit_code == 0
    assert set(gateway.events.values()) == {"searchable"}
    gateway.fate = "dead"
    assert cairn("runbooks", "put", "a.md", "--wait").exit_code == 1


def test_an_event_s_state_is_told(gateway: FakeGateway, cairn: Run) -> None:
    gateway.events = {"e1": "searchable", "e2": "dead"}
    assert cairn("ingest", "e1").stdout == "state     searchable\nevent_id  e1\n"
    assert cairn("ingest", "e2").exit_code == 1
    assert cairn("ingest", "e3").exit_code == 1


def test_users_get_keys_that_are_the_only_output(gateway: FakeGateway, cairn: Run) -> None:
    assert cairn("users", "add", "user-a", "--name", "A", "--role", "editor").stdout == "user-a created\n"
    assert cairn("users", "ls").stdout == "user-a\tA\teditor\t\t\t\n"
    result = cairn("users", "key", "user-a")
    assert result.stdout == "cairn_secret\n"
    assert "its id is k1" in result.stderr
    assert cairn("users", "key", "nobody").exit_code == 1
    assert cairn("users", "revoke", "user-a", "k1").exit_code == 0
    assert cairn("users", "revoke", "user-a", "k2").exit_code == 1
    assert cairn("users", "add", "user-b", "--name", "B", "--role", "king").exit_code == 2


def execution(name: str, runbook_id: str) -> dict[str, Any]:
    times = {"started_at": "2026-01-11T02:14:00Z", "finished_at": None}
    return {"id": name, "runbook_id": runbook_id, "step": 2, "outcome": "worked", "user_id": "u", "note": "x"} | times


def test_executions_are_listed_by_runbook_up_to_a_limit(gateway: FakeGateway, cairn: Run) -> None:
    gateway.executions = {str(number): execution(str(number), "a") for number in range(5)} | {"b": execution("b", "b")}
    result = cairn("executions", "--runbook", "a", "--limit", "3")
    assert result.stdout == "2026-01-11T02:14:00Z\ta\t2\tworked\tu\tx\n" * 3
    everything = json.loads(cairn("executions", "--json").stdout)["executions"]
    assert len(everything) == 6
    assert cairn("executions", "--runbook", "c").exit_code == 1


def test_an_execution_is_recorded(gateway: FakeGateway, cairn: Run) -> None:
    assert cairn("executions", "record", "redis-down", "2", "failed", "--note", "no").stdout == "made recorded\n"
    assert gateway.executions["made"] == {
        "id": "made", "runbook_id": "redis-down", "step": 2, "outcome": "failed", "note": "no",
    }  # fmt: skip
    assert cairn("executions", "record", "redis-down", "2", "perhaps").exit_code == 2
