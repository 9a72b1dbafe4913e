from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cairn_ingest_consumer.repositories.plan import plan
from cairn_shared.repositories.model import Declaration, Skipped, runbook_id
from cairn_shared.repositories.reading import TreeFile
from cairn_shared.runbooks.records import Head

OPS = Declaration(name="ops", url="https://github.com/acme/ops")


def head(path: str, blob: str, **changes: Any) -> Head:
    fields: dict[str, Any] = {
        "id": runbook_id("ops", path),
        "revision": 1,
        "deleted": False,
        "content_sha": "x",
        "title": path,
        "service": None,
        "severity": None,
        "owner": None,
        "tags": (),
        "alerts": (),
        "source": "repo:ops",
        "path": path,
        "commit": "c",
        "blob": blob,
        "url": f"https://github.com/acme/ops/blob/main/{path}",
        "steps": 1,
        "updated_at": datetime(2026, 1, 1, tzinfo=UTC),
        "updated_by": "sync:ops",
    }
    return Head(**{**fields, **changes})


def test_only_what_differs_is_written_and_only_what_is_gone_is_deleted() -> None:
    files = [TreeFile("same.md", "1"), TreeFile("edited.md", "3"), TreeFile("new.md", "4")]
    heads = [
        head("same.md", "1"),
        head("edited.md", "2"),
        head("gone.md", "5"),
        head("long-gone.md", "6", deleted=True),
    ]
    found = plan(OPS, "github", files, heads)
    assert sorted(found.write) == ["ops.edited", "ops.new"]
    assert found.delete == ("ops.gone",)


def test_a_rename_writes_the_new_path_and_deletes_the_old() -> None:
    found = plan(OPS, "github", [TreeFile("b.md", "1")], [head("a.md", "1")])
    assert (list(found.write), found.delete) == (["ops.b"], ("ops.a",))


def test_a_file_that_came_back_is_written_over_its_tombstone() -> None:
    assert list(plan(OPS, "github", [TreeFile("a.md", "1")], [head("a.md", "1", deleted=True)]).write) == ["ops.a"]


def test_what_somebody_edited_by_hand_is_written_again() -> None:
    assert list(plan(OPS, "github", [TreeFile("a.md", "1")], [head("a.md", "1", updated_by="jo")]).write) == ["ops.a"]


def test_an_id_of_another_source_is_left_alone() -> None:
    found = plan(OPS, "github", [TreeFile("a.md", "1")], [], taken={"ops.a": "api"})
    assert not found.write
    assert found.skipped == (Skipped(path="a.md", reason="the id ops.a belongs to api"),)


def test_a_file_known_to_be_no_runbook_is_not_read_again_until_it_changes() -> None:
    known = {"a.md": Skipped(path="a.md", reason="empty", blob="1")}
    assert not plan(OPS, "github", [TreeFile("a.md", "1")], [], unreadable=known).write
    assert list(plan(OPS, "github", [TreeFile("a.md", "2")], [], unreadable=known).write) == ["ops.a"]


def test_reading_again_goes_on_where_it_stopped() -> None:
    files = [TreeFile(f"{name}.md", "1") for name in "abc"]
    heads = [head(f"{name}.md", "1") for name in "abc"]
    assert sorted(plan(OPS, "github", files, heads, again_from="ops.b").write) == ["ops.b", "ops.c"]
    assert sorted(plan(OPS, "github", files, heads, again_from="").write) == ["ops.a", "ops.b", "ops.c"]
