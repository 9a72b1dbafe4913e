"""`/runbooks` over HTTP: writing, reading, ETags, lists, revisions, deletion, import."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from cairn_gateway.importing import id_of_path
from cairn_shared.errors import InvalidInput
from cairn_shared.runbooks.records import revision_event_id

MARKDOWN = {"content-type": "text/markdown; charset=utf-8"}
TEXT = """---
title: Redis out of memory
service: redis
severity: critical
owner: caching
tags: [memory, eviction]
alerts: [RedisMemoryHigh]
---

## Steps

1. Look at `redis-cli info memory`.
2. Raise `maxmemory`:

   ```
   redis-cli config set maxmemory 8gb
   ```
"""


async def put(client: httpx.AsyncClient, text: str = TEXT, name: str = "redis-oom", **headers: str) -> httpx.Response:
    return await client.put(f"/runbooks/{name}", content=text.encode(), headers=MARKDOWN | headers)


async def test_a_markdown_runbook_is_created_read_back_and_listed(client: httpx.AsyncClient) -> None:
    answer = await put(client)
    assert answer.status_code == 201
    assert answer.headers["etag"] == '"1"'
    assert answer.json() == {
        "id": "redis-oom",
        "revision": 1,
        "changed": True,
        "created": True,
        "status": "created",
        "event_id": str(revision_event_id("redis-oom", 1)),
        "title": "Redis out of memory",
        "service": "redis",
        "steps": 2,
        "warnings": [],
    }
    read = (await client.get("/runbooks/redis-oom")).json()
    assert [step["body"].splitlines()[0] for step in read["steps"]] == [
        "Look at `redis-cli info memory`.",
        "Raise `maxmemory`:",
    ]
    assert (read["severity"], read["owner"], read["tags"], read["alerts"], read["updated_by"], read["source"]) == (
        "critical",
        "caching",
        ["memory", "eviction"],
        ["RedisMemoryHigh"],
        "bootstrap",
        "api",
    )
    source = await client.get("/runbooks/redis-oom", headers={"accept": "text/markdown"})
    assert source.text == TEXT
    assert source.headers["content-type"] == "text/markdown; charset=utf-8"
    (listed,) = (await client.get("/runbooks")).json()["runbooks"]
    assert (listed["id"], listed["steps"], listed["revision"]) == ("redis-oom", 2, 1)


async def test_equal_content_changes_nothing(client: httpx.AsyncClient) -> None:
    first = (await put(client)).json()
    again = await put(client)
    assert again.status_code == 200
    assert again.json() == first | {"changed": False, "created": False, "status": "unchanged"}
    changed = (await put(client, TEXT.replace("8gb", "16gb"))).json()
    assert (changed["revision"], changed["status"]) == (2, "changed")


async def test_a_json_runbook_with_explicit_steps(client: httpx.AsyncClient) -> None:
    body = {
        "title": "Failover",
        "service": "mysql",
        "path": "mysql/failover.md",
        "steps": ["Stop writes.", {"body": "Promote `replica-1`.", "label": "2a", "section": "Promotion"}],
    }
    assert (await client.put("/runbooks/mysql-failover", json=body)).status_code == 201
    read = (await client.get("/runbooks/mysql-failover")).json()
    assert [(step["number"], step["label"], step["body"]) for step in read["steps"]] == [
        (1, "1", "Stop writes."),
        (2, "2a", "Promote `replica-1`."),
    ]
    assert read["path"] == "mysql/failover.md"
    refused = await client.get("/runbooks/mysql-failover", headers={"accept": "text/markdown"})
    assert refused.status_code == 406


async def test_fields_beside_markdown_hold_where_its_front_matter_is_silent(client: httpx.AsyncClient) -> None:
    body = {"markdown": TEXT, "service": "cache", "links": ["https://wiki.example.com/oom"], "tags": ["pager"]}
    await client.put("/runbooks/redis-oom", json=body)
    read = (await client.get("/runbooks/redis-oom")).json()
    assert (read["service"], read["tags"]) == ("redis", ["memory", "eviction", "pager"])
    assert read["links"] == ["https://wiki.example.com/oom"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"if-match": '"1"'}, 200),
        ({"if-match": '"7", "1"'}, 200),
        ({"if-match": "*"}, 200),
        ({"if-match": '"2"'}, 412),
        ({"if-match": '"not-ours"'}, 412),
        ({"if-none-match": "*"}, 412),
        ({"if-match": "one"}, 422),
        ({"if-none-match": '"1"'}, 422),
    ],
)
async def test_conditional_writes(client: httpx.AsyncClient, headers: dict[str, str], status: int) -> None:
    await put(client)
    answer = await put(client, TEXT.replace("8gb", "9gb"), **headers)
    assert answer.status_code == status
    assert (await client.get("/runbooks/redis-oom")).json()["revision"] == (2 if status == 200 else 1)


async def test_creating_only_if_absent(client: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(put(client, f"# T\n\n1. {n}\n", **{"if-none-match": "*"}) for n in range(5)))
    assert sorted(answer.status_code for answer in answers) == [201, 412, 412, 412, 412]
    assert (await put(client, name="other", **{"if-match": "*"})).status_code == 412


async def test_a_reader_who_has_the_revision_gets_304(client: httpx.AsyncClient) -> None:
    await put(client)
    answer = await client.get("/runbooks/redis-oom", headers={"if-none-match": '"1"'})
    assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", '"1"')
    assert (await client.get("/runbooks/redis-oom", headers={"if-none-match": '"2"'})).status_code == 200


async def test_twenty_concurrent_edits_get_consecutive_revisions(client: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(put(client, f"# T\n\n1. Writer {number}.\n") for number in range(20)))
    assert sorted(answer.json()["revision"] for answer in answers) == list(range(1, 21))
    revisions = (await client.get("/runbooks/redis-oom/revisions", params={"limit": 15})).json()
    assert [item["revision"] for item in revisions["revisions"]] == list(range(20, 5, -1))
    rest = (await client.get("/runbooks/redis-oom/revisions", params={"before": revisions["next"]})).json()
    assert [item["revision"] for item in rest["revisions"]] == [5, 4, 3, 2, 1]
    assert rest["next"] is None


async def test_deleting_leaves_a_tombstone_with_the_next_revision(client: httpx.AsyncClient) -> None:
    await put(client)
    assert (await client.delete("/runbooks/redis-oom", headers={"if-match": '"9"'})).status_code == 412
    gone = await client.delete("/runbooks/redis-oom", headers={"if-match": '"1"'})
    assert gone.json() == {
        "id": "redis-oom",
        "revision": 2,
        "event_id": str(revision_event_id("redis-oom", 2)),
    }
    assert (await client.get("/runbooks/redis-oom")).status_code == 404
    assert (await client.delete("/runbooks/redis-oom")).status_code == 404
    assert (await client.get("/runbooks")).json()["runbooks"] == []
    history = (await client.get("/runbooks/redis-oom/revisions")).json()["revisions"]
    assert [(item["revision"], item["deleted"]) for item in history] == [(2, True), (1, False)]
    back = await put(client)
    assert (back.status_code, back.json()["revision"]) == (201, 3)


async def test_lists_page_by_key_and_filter(client: httpx.AsyncClient) -> None:
    for number in range(5):
        body = {"title": f"Book {number}", "service": f"s{number % 2}", "tags": ["t"], "steps": ["Look."]}
        await client.put(f"/runbooks/book-{number}", json=body)
    seen: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = (await client.get("/runbooks", params={"limit": 2, **after})).json()
        seen += [item["id"] for item in page["runbooks"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert seen == [f"book-{number}" for number in range(5)]

    async def ids(**params: str) -> list[str]:
        return [item["id"] for item in (await client.get("/runbooks", params=params)).json()["runbooks"]]

    assert await ids(service="s1") == ["book-1", "book-3"]
    assert await ids(tag="t", q="BOOK 4") == ["book-4"]
    assert await ids(q="book (") == []


async def test_secrets_are_redacted_before_anything_is_stored(client: httpx.AsyncClient) -> None:
    token = "ghp_" + "a1B2" * 9
    await put(client, f"# T\n\n1. Use `{token}`.\n")
    body = {"title": f"T {token}", "steps": [f"Use {token}."]}
    await client.put("/runbooks/json", json=body)
    for name in ("redis-oom", "json"):
        assert token not in (await client.get(f"/runbooks/{name}")).text
    assert token not in (await client.get("/runbooks/redis-oom", headers={"accept": "text/markdown"})).text


async def import_(client: httpx.AsyncClient, items: dict[str, str], **more: Any) -> list[dict[str, Any]]:
    body = {"items": [{"path": path, "markdown": text} for path, text in items.items()], **more}
    answer = await client.post("/runbooks/import", json=body)
    assert answer.status_code == 200, answer.text
    results: list[dict[str, Any]] = answer.json()["results"]
    assert [result["path"] for result in results] == list(items)
    return results


async def test_an_import_says_of_each_file_what_became_of_it(client: httpx.AsyncClient) -> None:
    files = {
        "postgresql/replica-behind-on-wal.md": "# Replica\n\n1. Look.\n",
        "empty.md": "",
        "heading-only.md": "# Nothing else\n",
        "nul.md": "# T\n\n1. a\0b\n",
        "../../etc/passwd": "# T\n\n1. Look.\n",
        "unclosed.md": "# T\n\n1. Run:\n\n   ```\n   ls\n",
        "huge.md": "# T\n\n" + "x" * (1024 * 1024),
        "---.md": "# T\n\n1. Look.\n",
    }
    results = {result["path"]: result for result in await import_(client, files, source="docs", prefix="k8s-")}
    created = results["postgresql/replica-behind-on-wal.md"]
    assert (created["status"], created["id"], created["revision"]) == (
        "created",
        "k8s-postgresql-replica-behind-on-wal",
        1,
    )
    assert created["event_id"] == str(revision_event_id("k8s-postgresql-replica-behind-on-wal", 1))
    assert results["unclosed.md"]["status"] == "created"
    rejected = {path: result["field"] for path, result in results.items() if result["status"] == "rejected"}
    assert rejected == {
        "empty.md": "markdown",
        "heading-only.md": "markdown",
        "nul.md": "markdown",
        "../../etc/passwd": "path",
        "huge.md": "markdown",
    }
    assert all(result["reason"] for result in results.values() if result["status"] == "rejected")


async def test_front_matter_that_makes_no_sense_is_said_and_the_runbook_taken(client: httpx.AsyncClient) -> None:
    markdown = "---\ntitle: [1, 2]\nseverity: {}\n---\n# Real title\n\n1. Look.\n"
    said = [
        "front matter: title is a list of things that are no text, so it is left out",
        "front matter: severity is a mapping, so it is left out",
    ]
    put = await client.put("/runbooks/odd", content=markdown, headers={"content-type": "text/markdown"})
    assert (put.status_code, put.json()["title"], put.json()["warnings"]) == (201, "Real title", said)
    again = await client.put("/runbooks/odd", json={"markdown": markdown, "title": "x"})
    assert again.json()["warnings"] == said
    assert (await import_(client, {"a.md": markdown, "b.md": "# B\n\n1. Look.\n"}))[0]["warnings"] == said


async def test_importing_again_changes_only_what_changed(client: httpx.AsyncClient) -> None:
    files = {f"{name}.md": f"# {name}\n\n1. Look.\n" for name in "abc"}
    await import_(client, files)
    files["b.md"] = "# b\n\n1. Look twice.\n"
    results = await import_(client, files)
    assert [(result["status"], result["revision"]) for result in results] == [
        ("unchanged", 1),
        ("changed", 2),
        ("unchanged", 1),
    ]


async def test_two_files_never_take_turns_in_being_one_runbook(client: httpx.AsyncClient) -> None:
    text = "# T\n\n1. Look.\n"
    same = await import_(client, {"a/b.md": text, "a-b.md": text})
    assert [result["status"] for result in same] == ["created", "rejected"]
    assert "a/b.md has the same id" in same[1]["reason"]
    (other,) = await import_(client, {"a/b.md": text}, source="other")
    assert (other["status"], other["field"]) == ("rejected", "path")
    assert "belongs to another runbook (import, a/b.md)" in other["reason"]
    (prefixed,) = await import_(client, {"a/b.md": text}, source="other", prefix="o-")
    assert prefixed["status"] == "created"


async def test_an_import_keeps_what_was_written_by_hand_and_says_how_to_have_the_file_again(
    client: httpx.AsyncClient,
) -> None:
    files = {"a.md": "# T\n\n1. Look.\n"}
    await import_(client, files)
    await client.delete("/runbooks/a")
    await put(client, "# T\n\n1. By hand.\n", name="a")
    (kept,) = await import_(client, files)
    assert (kept["status"], kept["field"]) == ("rejected", "path")
    assert "`cairn runbooks rm a`" in kept["reason"]
    assert "By hand." in (await client.get("/runbooks/a")).text
    await client.delete("/runbooks/a")
    (again,) = await import_(client, files)
    assert again["status"] == "changed" or again["status"] == "created"
    assert "Look." in (await client.get("/runbooks/a")).text


async def test_an_imported_runbook_edited_by_hand_is_still_the_files(client: httpx.AsyncClient) -> None:
    await import_(client, {"a.md": "# T\n\n1. Look.\n"}, source="docs")
    await put(client, "# T\n\n1. Look twice.\n", name="a")
    read = (await client.get("/runbooks/a")).json()
    assert (read["source"], read["path"], read["revision"]) == ("docs", "a.md", 2)
    (again,) = await import_(client, {"a.md": "# T\n\n1. Look.\n"}, source="docs")
    assert (again["status"], again["revision"]) == ("changed", 3)


@pytest.mark.parametrize(
    ("path", "prefix", "expected"),
    [
        ("postgresql/replica-behind-on-wal.md", "", "postgresql-replica-behind-on-wal"),
        ("alerts/KubePodCrashLooping.md", "", "alerts-KubePodCrashLooping"),
        ("a b/ü (1).markdown", "", "a-b--1"),
        ("_index.md", "", "index"),
        (".hidden/x.MD", "pre-", "pre-.hidden-x"),
        ("x.md.md", "", "x.md"),
    ],
)
def test_ids_follow_from_paths(path: str, prefix: str, expected: str) -> None:
    assert id_of_path(path, prefix) == expected


def test_long_paths_get_distinct_ids_of_allowed_length() -> None:
    long = "/".join(["folder"] * 60)
    ids = {id_of_path(f"{long}/{name}.md") for name in "ab"}
    assert len(ids) == 2
    assert all(len(name) <= 200 for name in ids)


def test_a_path_without_letters_has_no_id() -> None:
    with pytest.raises(InvalidInput):
        id_of_path("---/!!.md")


async def test_a_preview_shows_the_steps_and_writes_nothing(client: httpx.AsyncClient) -> None:
    text = "---\ntitle: Redis\n---\n# Redis\n\n## Steps\n\n1. Look.\n2. Restart.\n"
    shown = await client.post("/runbooks/preview", json={"markdown": text})
    assert shown.status_code == 200
    body = shown.json()
    assert [(step["number"], step["body"]) for step in body["steps"]] == [(1, "Look."), (2, "Restart.")]
    assert body["title"] == "Redis"
    assert body["warnings"] == []
    assert (await client.get("/runbooks")).json()["runbooks"] == []
    bad = await client.post("/runbooks/preview", json={"markdown": "# Only a title\n"})
    assert (bad.status_code, bad.json()["field"]) == (422, "markdown")


async def test_what_was_written_before_can_be_read_and_put_back(client: httpx.AsyncClient) -> None:
    headers = {"content-type": "text/markdown"}
    first, second = "# R\n\n1. Look.\n", "# R\n\n1. Look twice.\n"
    for text in (first, second):
        assert (await client.put("/runbooks/r", content=text, headers=headers)).status_code in {200, 201}
    old = await client.get("/runbooks/r/revisions/1")
    assert [step["body"] for step in old.json()["steps"]] == ["Look."]
    source = await client.get("/runbooks/r/revisions/1", headers={"accept": "text/markdown"})
    assert source.text == first
    back = await client.put("/runbooks/r", content=source.text, headers=headers | {"if-match": '"2"'})
    assert (back.status_code, back.json()["revision"]) == (200, 3)
    for missing in ("4", "99"):
        assert (await client.get(f"/runbooks/r/revisions/{missing}")).status_code == 404
    assert (await client.get("/runbooks/r/revisions/0")).status_code == 422
    await client.delete("/runbooks/r")
    assert (await client.get("/runbooks/r/revisions/4")).status_code == 404, "a tombstone has no text"
    assert (await client.get("/runbooks/r/revisions/3")).status_code == 200


async def test_a_runbook_knows_what_links_to_it(client: httpx.AsyncClient) -> None:
    pages = {
        "redis/disk.md": "# Disk\n\n1. Look.\n",
        "redis/other.md": "# Other\n\n1. First [the disk](disk.md#step-1).\n",
        "mysql/disk.md": "# Its own disk\n\n1. As in [theirs](../redis/disk.md).\n",
        "mysql/near.md": "# Near\n\n1. Not [this one](disk.md), though disk.md is its name.\n",
    }
    items = [{"path": path, "markdown": text} for path, text in pages.items()]
    await client.post("/runbooks/import", json={"source": "docs", "items": items})
    linked = (await client.get("/runbooks/redis-disk/linked-from")).json()["runbooks"]
    assert [one["id"] for one in linked] == ["mysql-disk", "redis-other"]
    assert (await client.get("/runbooks/nothing/linked-from")).status_code == 404
