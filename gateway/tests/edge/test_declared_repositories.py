"""`/repos` on a running gateway: declared, by a file too, marked by the clock, compared with git."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from dulwich.index import commit_tree
from dulwich.objects import Blob, Commit
from dulwich.refs import Ref
from dulwich.repo import Repo
from pydantic import ValidationError

from cairn_gateway.repositories import RepositoryTimer, TimerPolicy
from cairn_gateway.settings import GatewaySettings
from cairn_shared import mongo
from cairn_shared.repositories.model import Declaration, SyncState
from cairn_shared.repositories.store import RepositoryStore
from cairn_shared.runbooks.markdown import load_runbook
from cairn_shared.runbooks.store import RunbookStore

if TYPE_CHECKING:
    from gateway.tests.edge.conftest import StillClock, Upstream

Start = Callable[[GatewaySettings], AbstractAsyncContextManager[httpx.AsyncClient]]
OPS = {"name": "ops", "url": "https://github.com/acme/runbooks", "include": ["docs/**/*.md"]}


@pytest.fixture
async def gateway(start_gateway: Start, gateway_settings: GatewaySettings) -> AsyncIterator[httpx.AsyncClient]:
    async with start_gateway(gateway_settings.model_copy(update={"allow_local_repos": True})) as client:
        yield client


async def test_a_repository_is_declared_listed_changed_and_removed(gateway: httpx.AsyncClient) -> None:
    made = await gateway.post("/repos", json=OPS)
    assert made.status_code == 201
    view = made.json()
    assert (view["provider"], view["branch"], view["include"]) == ("github", "main", ["docs/**/*.md"])
    assert view["webhook"] == {
        "path": "/webhooks/github",
        "events": "push",
        "content_type": "application/json",
        "setting": "GITHUB_WEBHOOK_SECRET",
    }
    assert view["event_id"]
    changed = await gateway.post("/repos", json={**OPS, "branch": "stable"})
    assert changed.json()["branch"] == "stable"
    listed = (await gateway.get("/repos")).json()["repos"]
    assert [(one["name"], one["branch"], one["state"]["synced_at"]) for one in listed] == [("ops", "stable", None)]
    asked = await gateway.post("/repos/ops/sync")
    assert (asked.status_code, bool(asked.json()["event_id"])) == (202, True)
    assert (await gateway.delete("/repos/ops")).json()["event_id"]
    assert (await gateway.get("/repos/ops")).status_code == 404
    assert (await gateway.post("/repos/ops/sync")).status_code == 404
    assert (await gateway.delete("/repos/ops")).status_code == 404


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"url": "https://evil.example/a/b"}, "url", "REPO_HOSTS"),
        ({"url": "http://169.254.169.254/latest"}, "url", "REPO_HOSTS"),
        ({"url": "https://user:secret@github.com/a/b"}, "url", "no user or password"),
        ({"url": "ssh://git@github.com/a/b"}, "url", "must begin with"),
        ({"url": "https://github.com/a/b", "provider": "gitea"}, "provider", "GITEA_API_URL"),
        ({"name": "Ops"}, "name", "pattern"),
        ({"include": ["["]}, "include", "["),
    ],
)
async def test_a_wrong_declaration_is_refused_with_the_field(
    client: httpx.AsyncClient, change: dict[str, Any], field: str, says: str
) -> None:
    answer = await client.post("/repos", json={**OPS, **change})
    assert answer.status_code == 422
    assert answer.json()["field"].startswith(field)
    assert says in answer.text
    assert "secret" not in answer.text


async def test_local_repositories_need_their_setting(client: httpx.AsyncClient) -> None:
    answer = await client.post("/repos", json={"name": "ops", "url": "file:///etc"})
    assert (answer.status_code, "ALLOW_LOCAL_REPOS" in answer.text) == (422, True)


class TestFile:
    async def test_the_file_declares_changes_and_removes(
        self, start_gateway: Start, gateway_settings: GatewaySettings, tmp_path: Path
    ) -> None:
        path = tmp_path / "repos.yaml"
        settings = gateway_settings.model_copy(update={"runbook_repos": str(path)})
        path.write_text(
            "repos:\n- {name: a, url: 'https://github.com/x/a'}\n- {name: b, url: 'https://github.com/x/b'}\n"
        )
        async with start_gateway(settings) as client:
            assert [one["name"] for one in (await client.get("/repos")).json()["repos"]] == ["a", "b"]
            assert (await client.post("/repos", json={"name": "a", "url": "https://github.com/x/c"})).status_code == 409
            assert (await client.delete("/repos/a")).status_code == 422
            await client.post("/repos", json=OPS)
        path.write_text("repos:\n- {name: a, url: 'https://github.com/x/a', branch: stable}\n")
        async with start_gateway(settings) as client:
            repos = (await client.get("/repos")).json()["repos"]
            assert [(one["name"], one["branch"], one["origin"]) for one in repos] == [
                ("a", "stable", "file"),
                ("ops", "main", "api"),
            ]

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            ("repos: [", "not YAML"),
            ("repos:\n- {name: a}", "url"),
            ("other: 1", "repos"),
            ("repos:\n- {name: a, url: 'https://h/x'}\n- {name: a, url: 'https://h/y'}", "declared twice"),
            (None, "No such file"),
        ],
    )
    def test_a_wrong_file_stops_the_start_and_is_named(
        self, gateway_settings: GatewaySettings, tmp_path: Path, content: str | None, says: str
    ) -> None:
        path = tmp_path / "repos.yaml"
        if content is not None:
            path.write_text(content)
        values = {**gateway_settings.model_dump(), "runbook_repos": str(path)}
        with pytest.raises(ValidationError) as caught:
            GatewaySettings(**values)
        assert caught.value.errors()[0]["loc"] == ("runbook_repos",)
        assert says in str(caught.value)


class Marks:
    """What the timer asked for."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def mark(self, declarations: Sequence[Declaration]) -> list[Any]:
        self.names += [one.name for one in declarations]
        return []


async def test_the_timer_marks_what_is_due_and_not_twice(database: mongo.Database, clock: StillClock) -> None:
    store = RepositoryStore(database, clock)
    marks = Marks()
    timer = RepositoryTimer(store, marks, clock, TimerPolicy(interval=timedelta(hours=1)))  # type: ignore[arg-type]
    for name in ("new", "fresh", "old", "failed", "waits"):
        await store.declare(Declaration(name=name, url=f"https://github.com/x/{name}"), by="t")
    now = clock.now()
    await store.save_state("fresh", SyncState(synced_at=now - timedelta(minutes=59)))
    await store.save_state("old", SyncState(synced_at=now - timedelta(minutes=61)))
    await store.save_state("failed", SyncState(error="x", retry_at=now - timedelta(seconds=1)))
    await store.save_state("waits", SyncState(error="x", retry_at=now + timedelta(minutes=1)))
    assert await timer.look() == ["failed", "new", "old"]
    assert await timer.look() == []
    clock.advance(120)
    assert await timer.look() == ["fresh", "waits"]
    clock.advance(500)
    assert await timer.look() == ["failed", "new", "old"]
    clock.advance(15)
    tried = SyncState(error="x", started_at=clock.now() - timedelta(seconds=14), retry_at=clock.now())
    await store.save_state("failed", tried)
    assert await timer.look() == ["failed"]
    await store.save_state("old", SyncState(synced_at=clock.now()))
    await store.remove("old", by="t")
    clock.advance(3600)
    assert "old" in await timer.look()
    await store.save_state("old", SyncState(synced_at=clock.now()))
    clock.advance(3600)
    assert "old" not in await timer.look()


@pytest.fixture
def local(tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A repository of three runbooks: its URL, and blobs by path."""
    (tmp_path / "r.git").mkdir()
    repository = Repo.init_bare(str(tmp_path / "r.git"))
    blobs = {name: Blob.from_string(f"# {name}\n\n1. look\n".encode()) for name in ("a.md", "b.md", "c.md")}
    for blob in blobs.values():
        repository.object_store.add_object(blob)
    commit = Commit()
    entries = [(name.encode(), blob.id, 0o100644) for name, blob in blobs.items()]
    commit.tree = commit_tree(repository.object_store, entries)
    commit.author = commit.committer = b"T <t@example.org>"
    commit.author_time = commit.commit_time = 1
    commit.author_timezone = commit.commit_timezone = 0
    commit.message = b"m"
    repository.object_store.add_object(commit)
    repository.refs[Ref(b"refs/heads/main")] = commit.id
    yield f"file://{tmp_path / 'r.git'}", {name: blob.id.decode() for name, blob in blobs.items()}
    repository.close()


async def test_verifying_names_what_differs_from_git_and_from_the_index(
    gateway: httpx.AsyncClient,
    store: RunbookStore,
    upstream: Upstream,
    local: tuple[str, dict[str, str]],
    clock: StillClock,
) -> None:
    url, blobs = local
    assert (await gateway.post("/repos", json={"name": "ops", "url": url})).status_code == 201

    async def put(path: str, blob: str, by: str = "sync:ops") -> None:
        name = f"ops.{path.removesuffix('.md')}"
        text = f"# {path}\n\n1. look\n"
        book = load_runbook(text, runbook_id=name, source="repo:ops", path=path, blob=blob)
        written = await store.put(book, markdown=text, by=by)
        upstream.index(name, written.revision, book.content_sha())

    for path, blob in blobs.items():
        await put(path, blob)
    same = (await gateway.post("/repos/ops/verify")).json()
    assert (same["ok"], same["files"], same["tree"], same["index"]) == (True, 3, [], [])

    await put("b.md", "0" * 40)
    await store.delete("ops.c", by="jo")
    await put("gone.md", "1" * 40)
    del upstream.documents["ops.a"]
    found = (await gateway.post("/repos/ops/verify")).json()
    assert not found["ok"]
    assert sorted((one["kind"], one["path"]) for one in found["tree"]) == [
        ("extra", "gone.md"),
        ("missing", "c.md"),
        ("stale", "b.md"),
    ]
    assert "ops.a" in [*found["pending"], *(one["runbook_id"] for one in found["index"])]
