"""Whatever comes in, the answer is a problem that names what is wrong; never a 500."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from gateway.tests.edge.conftest import Upstream

JSON = "application/json"
MARKDOWN = "text/markdown"
DEEP = b"[" * 100_000 + b"]" * 100_000
BIG = b'{"title": "' + b"x" * (11 * 1024 * 1024) + b'"}'


def body(**fields: Any) -> bytes:
    return json.dumps({"title": "T", "steps": ["Look."], **fields}).encode()


PUTS = [
    ("empty body", JSON, b"", 400, "body"),
    ("cut JSON", JSON, b"{", 400, "body"),
    ("invalid UTF-8 JSON", JSON, b"\xff\xfe", 422, "body"),
    ("invalid UTF-8 in a string", JSON, b'{"title": "\xff"}', 422, "body"),
    ("deep nesting", JSON, DEEP, 400, "body"),
    ("a list", JSON, b"[]", 422, "body"),
    ("null", JSON, b"null", 422, "body"),
    ("NaN", JSON, b"NaN", 422, "body"),
    ("unknown field", JSON, body(colour="red"), 422, "colour"),
    ("no title", JSON, body(title=None), 422, "title"),
    ("empty title", JSON, body(title=""), 422, "title"),
    ("long title", JSON, body(title="x" * 501), 422, "title"),
    ("title of a wrong type", JSON, body(title=["x"]), 422, "title"),
    ("NUL in the title", JSON, body(title="a\0b"), 422, "title"),
    ("lone surrogate", JSON, b'{"title": "\\ud800", "steps": ["x"]}', 400, "body"),
    ("no steps", JSON, body(steps=[]), 422, "steps"),
    ("blank step", JSON, body(steps=["ok", "  "]), 422, "steps.1.body"),
    ("NUL in a step", JSON, body(steps=["ok", "a\0b"]), 422, "steps.1.body"),
    ("unknown field of a step", JSON, body(steps=[{"body": "x", "shape": 1}]), 422, "steps.0.shape"),
    ("a step that is a number", JSON, body(steps=[3]), 422, "steps.0"),
    ("steps and Markdown", JSON, body(markdown="# T\n\n1. x"), 422, "steps"),
    ("neither steps nor Markdown", JSON, b'{"title": "T"}', 422, "markdown"),
    ("empty Markdown in JSON", JSON, b'{"markdown": ""}', 422, "markdown"),
    ("too many tags", JSON, body(tags=["x"] * 101), 422, "tags"),
    ("steps over 1 MiB", JSON, body(steps=["x" * 1024 * 1024, "y"]), 413, "steps"),
    ("10 MB body", JSON, BIG, 413, "body"),
    ("empty Markdown", MARKDOWN, b"", 422, "markdown"),
    ("Markdown without content", MARKDOWN, b"# Only a title\n", 422, "markdown"),
    ("Markdown that is not UTF-8", MARKDOWN, b"# T\n\n1. \xff\n", 422, "markdown"),
    ("NUL in Markdown", MARKDOWN, b"# T\n\n1. a\0b\n", 422, "markdown"),
    ("broken front matter", MARKDOWN, b"---\ntitle: [\n---\n\n1. x\n", 422, "front matter"),
    ("Markdown over 1 MiB", MARKDOWN, b"# T\n\n1. " + b"x" * 1024 * 1024, 413, "markdown"),
    ("10 MB of Markdown", MARKDOWN, BIG, 413, "body"),
    ("HTML", "text/html", b"<p>", 415, None),
    ("a form", "application/x-www-form-urlencoded", b"a=b", 415, None),
]


async def test_bad_runbooks_are_refused_by_name(client: httpx.AsyncClient, subtests: pytest.Subtests) -> None:
    for what, kind, content, status, field in PUTS:
        with subtests.test(what):
            answer = await client.put("/runbooks/a", content=content, headers={"content-type": kind})
            assert_problem(answer, status, field)
    assert (await client.get("/runbooks/a")).status_code == 404


def assert_problem(answer: httpx.Response, status: int, field: str | None) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["detail"]
    assert problem["request_id"]
    assert problem.get("field") == field, problem


REQUESTS = [
    ("PUT", "/runbooks/a%20b", body(), 422, "path.runbook_id"),
    ("PUT", "/runbooks/" + "a" * 201, body(), 422, "path.runbook_id"),
    ("PUT", "/runbooks/a%00b", body(), 422, "path.runbook_id"),
    ("PUT", "/runbooks/%ff", body(), 422, "path.runbook_id"),
    ("PUT", "/runbooks/a?source=%00", body(), 422, "query.source"),
    ("GET", "/runbooks?limit=0", b"", 422, "query.limit"),
    ("GET", "/runbooks?limit=99999999999999999999", b"", 422, "query.limit"),
    ("GET", "/runbooks?after=%00", b"", 422, "query.after"),
    ("GET", "/runbooks?q=%00", b"", 422, "q"),
    ("GET", "/runbooks/nobody", b"", 404, None),
    ("GET", "/runbooks/nobody/revisions", b"", 404, None),
    ("GET", "/runbooks/a/revisions?before=9223372036854775808", b"", 422, "query.before"),
    ("DELETE", "/runbooks/nobody", b"", 404, None),
    ("POST", "/runbooks/import", b"{", 400, "body"),
    ("POST", "/runbooks/import", b"\xff", 422, "body"),
    ("POST", "/runbooks/import", b'{"items": []}', 422, "items"),
    ("POST", "/runbooks/import", b'{"items": [{"path": "a.md"}]}', 422, "items.0.markdown"),
    ("POST", "/runbooks/import", b'{"source": "a b", "items": [{"path": "a.md", "markdown": "x"}]}', 422, "source"),
    (
        "POST",
        "/runbooks/import",
        json.dumps({"items": [{"path": "a.md", "markdown": "x"}] * 201}).encode(),
        422,
        "items",
    ),
    (
        "POST",
        "/runbooks/import",
        json.dumps({"items": [{"path": f"{n}.md", "markdown": "x" * 1024 * 1024} for n in range(9)]}).encode(),
        413,
        "items",
    ),
    ("GET", "/ingest/not-a-uuid", b"", 422, "path.event_id"),
    ("GET", "/ingest/00000000-0000-0000-0000-000000000000", b"", 404, None),
    ("POST", "/ingest/states", b'{"event_ids": ["x"]}', 422, "event_ids.0"),
    ("POST", "/ask", b'{"question": "  "}', 422, "question"),
    ("POST", "/ask", b'{"question": "a\\u0000b"}', 422, "question"),
    ("POST", "/ask", b'{"question": "x", "kk": 1}', 422, "kk"),
    ("POST", "/ask", b'{"question": "' + b"x" * 40_000 + b'"}', 422, "question"),
    ("POST", "/ask", b'{"question": "' + b"x" * 2_000_000 + b'"}', 413, "body"),
    ("POST", "/ask", b"\xff\xff", 422, "body"),
    ("POST", "/ask", DEEP, 400, None),
    ("POST", "/search", b'{"query": "x", "k": 0}', 422, "k"),
    ("POST", "/search", b'{"query": "x", "filters": {"since": "yesterday"}}', 422, "filters.since"),
    ("PUT", "/users/a", b'{"name": "A", "role": "god"}', 422, "role"),
    ("PUT", "/users/a", b'{"name": "A", "email": "nobody"}', 422, "email"),
    ("POST", "/users/nobody/keys", b"{}", 404, None),
    ("DELETE", "/users/nobody/keys/k", b"", 404, None),
    ("POST", "/executions", b'{"runbook_id": "nobody", "step": 1, "outcome": "worked"}', 422, "runbook_id"),
    ("PUT", "/executions/e", b'{"runbook_id": "a", "step": 1e30, "outcome": "worked"}', 422, "step"),
    (
        "PUT",
        "/executions/e",
        b'{"runbook_id":"a","step":1,"outcome":"worked","user_id":"u","started_at":"0001-01-01T00:00:00+14:00"}',
        422,
        "started_at",
    ),
    ("GET", "/executions?after=~~", b"", 422, "after"),
    ("POST", "/feedback", b'{"verdict": "meh"}', 422, "verdict"),
    ("POST", "/verify", b'{"repair": "perhaps"}', 422, "repair"),
    ("PATCH", "/runbooks/a", b"", 405, None),
    ("GET", "/nothing", b"", 404, None),
]


async def test_bad_requests_are_refused_by_name(client: httpx.AsyncClient, subtests: pytest.Subtests) -> None:
    for method, path, content, status, field in REQUESTS:
        with subtests.test(f"{method} {path} {content[:40]!r}"):
            answer = await client.request(method, path, content=content, headers={"content-type": JSON})
            assert_problem(answer, status, field)


LONE = "\\ud800"
UNSTORABLE = [
    ("/search", {"query": "redis", "filters": {"source": "?"}}, "filters.source"),
    ("/search", {"query": "redis", "filters": {"service": "?"}}, "filters.service"),
    ("/search", {"query": "redis", "alert": {"annotations": {"summary": "?"}}}, "alert.annotations.summary"),
    ("/ask", {"question": "?"}, "question"),
    ("/ask", {"question": "redis", "filters": {"source": "?"}}, "filters.source"),
    ("/ask", {"question": "redis", "alert": {"labels": {"alertname": "?"}}}, "alert.labels.alertname"),
    ("/ask", {"question": "redis", "alert": {"labels": {"?": "x"}}}, "alert.labels"),
    ("/ask", {"question": "redis", "min_revision": {"?": 1}}, "min_revision"),
    ("/executions", {"runbook_id": "a", "step": 1, "outcome": "worked", "note": "?"}, "note"),
    ("/feedback", {"verdict": "wrong", "note": "?"}, "note"),
    ("/users/u/keys", {"label": "?"}, "label"),
]


@pytest.mark.parametrize("text", [LONE, "\\udc00", "\\u0000", "\\ud800\\ud800"])
async def test_text_that_no_store_holds_is_refused_by_its_field_and_asks_nobody(
    client: httpx.AsyncClient, upstream: Upstream, subtests: pytest.Subtests, text: str
) -> None:
    for path, shape, field in UNSTORABLE:
        with subtests.test(f"{path} {field}"):
            content = json.dumps(shape).replace("?", text)
            answer = await client.post(path, content=content, headers={"content-type": JSON})
            assert_problem(answer, 422, field)
    assert upstream.asked == []


async def test_a_member_named_by_half_a_character_is_refused_and_a_whole_pair_is_text(
    client: httpx.AsyncClient, upstream: Upstream
) -> None:
    headers = {"content-type": JSON}
    answer = await client.post("/search", content=b'{"query": "a", "\\ud800": 1}', headers=headers)
    assert answer.status_code == 422, answer.text
    raw = await client.post("/search", content=b'{"query": "\xed\xa0\x80"}', headers=headers)
    assert_problem(raw, 422, "body")
    wide = await client.post("/search", content='{"query": "a\\u0000"}'.encode("utf-16"), headers=headers)
    assert wide.status_code == 422, wide.text
    answer = await client.post("/search", content=b'{"query": "\\ud83d\\ude00"}', headers=headers)
    assert answer.status_code == 200, answer.text
    assert upstream.asked[-1]["query"] == "\U0001f600"


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
async def test_a_time_that_no_store_holds_is_bad_input_and_no_outage(
    client: httpx.AsyncClient, upstream: Upstream, when: str
) -> None:
    answer = await client.post("/search", json={"query": "redis", "filters": {"since": when}})
    assert_problem(answer, 422, "filters.since")
    assert upstream.asked == []


async def test_without_a_key_the_body_is_not_looked_at(client: httpx.AsyncClient) -> None:
    for path in ("/ask", "/search", "/executions", "/feedback", "/verify", "/ingest/states", "/v1/chat/completions"):
        answer = await client.post(path, content=b"{", headers={"content-type": JSON, "authorization": "Bearer no"})
        assert answer.status_code == 401, path


async def test_a_compressed_body_is_refused_and_not_misread(client: httpx.AsyncClient) -> None:
    headers = {"content-type": JSON, "content-encoding": "gzip"}
    packed = gzip.compress(body())
    for method, path in (("POST", "/search"), ("PUT", "/runbooks/a"), ("POST", "/runbooks/import")):
        answer = await client.request(method, path, content=packed, headers=headers)
        assert answer.status_code == 415, path


async def test_a_path_in_json_is_checked_as_that_of_the_query_is(client: httpx.AsyncClient) -> None:
    answer = await client.put("/runbooks/a", content=body(path="../../etc/passwd"), headers={"content-type": JSON})
    assert_problem(answer, 422, "path")


async def test_a_step_that_a_runbook_does_not_have_cannot_be_carried_out(client: httpx.AsyncClient) -> None:
    await client.put("/runbooks/one-step", content=body(), headers={"content-type": JSON})
    given = {"runbook_id": "one-step", "step": 2, "outcome": "worked"}
    assert_problem(await client.post("/executions", json=given), 422, "step")
    assert (await client.post("/executions", json=given | {"step": 1})).status_code == 201


async def test_a_client_that_leaves_in_its_body_is_no_failure_of_ours(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    url = client.base_url
    for path in ("/runbooks/a", "/users/u"):
        _, writer = await asyncio.open_connection(url.host, url.port)
        head = f"PUT {path} HTTP/1.1\r\nhost: x\r\nauthorization: {client.headers['authorization']}\r\n"
        writer.write(f"{head}content-type: application/json\r\ncontent-length: 1000\r\n\r\n{{".encode())
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.close()
    await asyncio.sleep(0.3)
    assert not [record for record in caplog.records if record.exc_info]
